/*
 * Records the results of flights in the table, and later those that it had to leave out (unrecorded.h). Blocks for a few
 * statements on the connection of the relay, and as long as the whole table is locked. One thread.
 */
#ifndef INGEST_RELAY_RECORDER_H
#define INGEST_RELAY_RECORDER_H

#include <stdatomic.h>

#include "ingest/fault_log_limit.h"
#include "ingest/relay/unrecorded.h"
#include "model/outbox/holes.h"
#include "store/pg/db.h"

struct recorder_options {
	int32_t instance;
	const atomic_bool *stop;
	struct holes *holes; /* get their bounds, and the events that are tried again */
	/* Keeps this instance elected during waits. Its result ends them, if it is not 0. */
	int (*renew)(void *arg, struct err *err);
	void *arg;
};

struct recorder {
	struct recorder_options options;
	struct unrecorded unrecorded;
	struct fault_log_limit locked_limit;
	/* Rows that PostgreSQL refuses to change: */
	struct fault_log_limit refused_limit;
	int64_t refused_seq; /* the last row that was refused alone, and why */
	struct err refused_why;
	int64_t retried_seq; /* the next retry begins behind this row */
	int refused_tries;   /* in succession, without success */
	int64_t refused_again_ms;
};

void recorder_init(struct recorder *recorder, const struct recorder_options *options);

/* Forgets what was left out, after a fault. */
void recorder_forget(struct recorder *recorder);

/* Published events first, and alone. Uses `keep`, `results` and `count` of `settle`, and sets `left_out` and `refused` of the
 * results. A row that PostgreSQL refuses to change is found by halves, and the others are recorded.
 * RELAY_ANOTHERS: as relay_settle(), or from options.renew(). */
int recorder_record(
	struct recorder *recorder, struct db *db, struct relay_settle *settle, struct err *err);
/* Tries again to record what was left out. */
int recorder_retry(struct recorder *recorder, struct db *db, bool keep, struct err *err);
/* Adds to `open` each seq up to the tip whose event may still have to be published: those in holes, and those of which the table
 * does not know yet that they were sent or deferred. FAULT_MEMORY. */
int recorder_collect_open(
	const struct recorder *recorder, int64_t tip, struct holes *open, struct err *err);
/* Writes a line about locked rows and one about refused ones, at most one a minute of each, if something is not recorded. */
void recorder_log_left_out(struct recorder *recorder);

#endif
