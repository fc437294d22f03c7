/*
 * The heartbeat: one thread with one connection. It renews the lease, publishes low_seq, fences
 * dead instances and rescues their rows (rules R2 to R5). All decisions use PostgreSQL's clock, so
 * that the clocks of hosts need not agree.
 */
#ifndef LEASE_HEARTBEAT_H
#define LEASE_HEARTBEAT_H

#include <stdatomic.h>

#include "config/config.h"
#include "report/health.h"
#include "report/metrics.h"
#include "report/supervision.h"
#include "store/leases/instance.h"

struct heartbeat;

/* Keeps everything; it must outlive the heartbeat. */
struct heartbeat_options {
	const struct config *config;
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	int32_t instance;
	/* identifies the socket lock, in the first instance run of a process; otherwise "" */
	const char *host_id;
	int32_t earlier;               /* the previous instance of this process; 0 = none */
	_Atomic int64_t *pg_offset_ms; /* result: PostgreSQL's clock minus clock_now_ms() */
	void (*bounds)(struct bounds *out, void *arg); /* any thread */
	int64_t (*low_claim)(void *arg);               /* any thread */
	void (*handlers)(struct buf *out, void *arg);  /* JSON array; any thread */
	void *arg;
};

int heartbeat_new(struct heartbeat **out, const struct heartbeat_options *options, struct err *err);
/*
 * Runs the first round, before the thread starts and before anything is consumed. It sends the
 * first heartbeat. Then it fences earlier instances with the same host_id, and the previous instance
 * of this process. Later rounds do not do that: a later instance with an equal host_id belongs to
 * another process, and two processes would fence each other again and again. The rows of the fenced
 * instances are set to waiting, so that their keys need not be held (rule R12). If that takes
 * longer than a heartbeat may wait, the thread continues. Blocks for the database.
 */
void heartbeat_fence_earlier(struct heartbeat *heartbeat);
int heartbeat_start(struct heartbeat *heartbeat, struct err *err);
/* Ends the thread. `deregister`: this instance holds nothing any more; its row is marked as
 * stopped. Returns within a few seconds even if the database does not answer. */
void heartbeat_stop(struct heartbeat *heartbeat, bool deregister);
void heartbeat_free(struct heartbeat *heartbeat);

#endif
