/*
 * The janitor: one thread with one connection that applies `retention`. One instance of the schema
 * does it at a time, elected by the database. The others have no connection for it: a worker's look at the table says
 * whether that one still works.
 *
 * It uses short transactions, each followed by a pause nine times as long, so that it needs at most
 * a tenth of one backend and never delays a heartbeat, a batch or a verdict. After a fault it tries
 * again later; its faults never end the process.
 */
#ifndef PERIODIC_JANITOR_H
#define PERIODIC_JANITOR_H

#include "config/config.h"
#include "report/health.h"
#include "report/metrics.h"
#include "store/periodic/retain_batch.h"

struct janitor;

/* Which ages are applied. It outlives a janitor, so that a new instance of the process still waits before it applies a
 * shorter age. Zeroed at the start of the process; the thread of the janitor uses it. */
struct janitor_ages {
	const struct config *config; /* NULL before the first round */
	bool shorter[RETAIN_KINDS];  /* to be logged before it is applied */
	int64_t due_ms[RETAIN_KINDS];
};

/* Keeps everything; it must outlive the janitor. */
struct janitor_options {
	const struct config *config;
	struct metrics *metrics;
	const struct health *health; /* retained_elsewhere_ms */
	struct janitor_ages *ages;
	int32_t instance;
};

int janitor_new(struct janitor **out, const struct janitor_options *options, struct err *err);
int janitor_start(struct janitor *janitor, struct err *err);
/* Any thread: other ages apply from now on. Keeps `config`. */
void janitor_reload(struct janitor *janitor, const struct config *config);
/* Asks the thread to end at once, without waiting for the answer of a running statement. */
void janitor_begin_stop(struct janitor *janitor);
/* Waits for its end. */
void janitor_stop(struct janitor *janitor);
void janitor_free(struct janitor *janitor);

#endif
