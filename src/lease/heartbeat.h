/*
 * The heartbeat: one thread with one connection, which does nothing else. It renews the lease,
 * publishes the bounds of the rows that the instance may hold (rules R2 and R3), and reads whether there is work for peers.h. All decisions use PostgreSQL's
 * clock, so that the clocks of hosts need not agree. See peers.h for the work that follows from the leases.
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
	_Atomic int64_t *pg_offset_ms; /* result: PostgreSQL's clock minus clock_now_ms() */
	void (*bounds)(struct bounds *out, void *arg); /* any thread */
	int64_t (*low_claim)(void *arg);               /* any thread */
	void (*handlers)(struct buf *out, void *arg);  /* JSON array; any thread */
	void *arg;
};

int heartbeat_new(struct heartbeat **out, const struct heartbeat_options *options, struct err *err);
/* Blocks for the first heartbeat, because deliveries need PostgreSQL's clock. A fault is logged, and the thread tries again. */
int heartbeat_start(struct heartbeat *heartbeat, struct err *err);
/* Any thread. The time of the latest heartbeat on PostgreSQL's clock, in ms, if the heartbeats were on time for a whole
 * lease over one unbroken connection; otherwise 0 (rule R4). */
int64_t heartbeat_steady_ms(const struct heartbeat *heartbeat);
/* Any thread. Whether the latest heartbeat has found work of this kind. It may take place in vain. */
enum heartbeat_duty {
	DUTY_DEAD,    /* an instance to fence, or to rescue rows of */
	DUTY_LACKING, /* a handler that is missing here */
	HEARTBEAT_DUTIES,
};
bool heartbeat_is_due(const struct heartbeat *heartbeat, enum heartbeat_duty duty);
/* Ends the thread. `deregister`: this instance holds nothing any more; its row is marked as
 * stopped. Returns within a few seconds even if the database does not answer. */
void heartbeat_stop(struct heartbeat *heartbeat, bool deregister);
void heartbeat_free(struct heartbeat *heartbeat);

#endif
