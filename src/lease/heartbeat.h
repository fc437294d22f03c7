/*
 * The heartbeat: one thread with one connection that renews the heartbeat, publishes
 * low_seq, fences dead instances and gives back their rows (rules R2 to R5). Everything it decides is
 * decided on PostgreSQL's clock.
 */
#ifndef LEASE_HEARTBEAT_H
#define LEASE_HEARTBEAT_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "config/config.h"
#include "model/health.h"
#include "model/supervision.h"
#include "store/instance.h"

struct heartbeat;

/* Everything is kept and must outlive the heartbeat. */
struct heartbeat_options {
	const struct config *config;
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	int32_t instance;
	const char *place; /* of the socket lock, in the first life of a process; else "" */
	int32_t earlier;   /* the life before this one; 0 = none */
	_Atomic int64_t *pg_offset_ms; /* out: PostgreSQL's clock minus clock_now_ms() */
	void (*bounds)(struct bounds *out, void *arg); /* any thread */
	int64_t (*low_claim)(void *arg);               /* any thread */
	void (*handlers)(struct buf *out, void *arg);  /* JSON array; any thread */
	void *arg;
};

int heartbeat_new(struct heartbeat **out, const struct heartbeat_options *options, struct err *err);
/* Before the thread starts and before anything is consumed: the first heartbeat; then earlier instances of this place
 * and the life before are fenced, which is not done again: a later one of an equal place is somebody else's, and two
 * would fence each other for ever. Their rows go back to waiting, so that their keys need not be held back (rule
 * R12). What takes longer than a heartbeat may wait, the thread goes on with. Blocks for the database. */
void heartbeat_fence_earlier(struct heartbeat *heartbeat);
int heartbeat_start(struct heartbeat *heartbeat, struct err *err);
/* Ends the thread. `deregister`: the instance holds nothing any more, say so in its row. Returns within
 * a few seconds also when the database hangs. */
void heartbeat_stop(struct heartbeat *heartbeat, bool deregister);
void heartbeat_free(struct heartbeat *heartbeat);

#endif
