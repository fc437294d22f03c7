/*
 * Periodic work against the database, on a thread and a connection of its own: retention, the dead topic. A task
 * works in rounds. After a round the thread pauses, for as long as the task says; after a fault it pauses longer each
 * time, between two limits of the task. Nothing here ends the process or holds up a batch, a verdict or a heartbeat.
 *
 * The task's functions run on the thread, one at a time. The configuration may change at any time: the task hears of
 * it before its next round.
 */
#ifndef PERIODIC_PERIODIC_H
#define PERIODIC_PERIODIC_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "base/thread.h"
#include "config/config.h"
#include "store/db.h"

enum { PERIODIC_IDLE = 1 };

/* What a task does. Constant; `arg` is periodic_options.arg. */
struct periodic_task {
	const char *thread;      /* its name */
	int64_t lock_timeout_ms; /* at most; a shorter one of the configuration holds */
	int64_t statement_timeout_ms;
	int64_t fault_pause_least_ms;
	int64_t fault_pause_most_ms;
	int64_t stop_grace_ms; /* how long a statement under way may go on after a request to stop */

	/*
	 * One round; sets *pause_ms unless it returns a fault. 0: done. PERIODIC_IDLE: there was nothing to do, which
	 * does not show whether an earlier fault is over. A fault: tried again after a pause that grows.
	 */
	int (*round)(void *arg, int64_t *pause_ms, struct err *err);
	/* The round failed and is tried again in retry_ms. `first`: the one before it did not fail. */
	void (*failed)(void *arg, const struct err *err, int64_t retry_ms, bool first);
	/* The first round that went well after a fault. */
	void (*recovered)(void *arg);
	/* Before the first round, and after each change. May be NULL. */
	void (*configured)(void *arg, const struct config *config);
	/* The thread ends. May be NULL. */
	void (*end)(void *arg);
};

/* Everything is kept and must outlive the runner. */
struct periodic_options {
	const struct periodic_task *task;
	const struct config *config;
	struct metrics *metrics;
	int32_t instance;
	void *arg;
};

struct periodic {
	struct periodic_options options;
	struct thread thread;
	const struct config *_Atomic config; /* any thread: the one in force */
	const struct config *known;          /* the one of the last round; NULL before the first */
	struct db *db;                       /* NULL until it is needed */
	pthread_mutex_t db_lock; /* while `db` comes or goes, or another thread interrupts it */
	int64_t fault_pause_ms;  /* 0: the last round went well */
};

int periodic_init(
	struct periodic *periodic, const struct periodic_options *options, struct err *err);
int periodic_start(struct periodic *periodic, struct err *err);
/* Any thread: another configuration, which is kept, from the next round on. The pause ends. */
void periodic_reload(struct periodic *periodic, const struct config *config);
/* Asks the thread to end. */
void periodic_request_stop(struct periodic *periodic);
/* Asks, and waits for the end: for stop_grace_ms, then the database is not waited for any more. */
void periodic_stop(struct periodic *periodic);
/* The thread has stopped, or never started. Allowed after a failed periodic_init(). */
void periodic_fini(struct periodic *periodic);

/* For the task: */
bool periodic_is_stopping(const struct periodic *periodic);
/* Makes the connection when there is none, and connects unless connected. */
int periodic_open_db(struct periodic *periodic, struct err *err);
/* The task has no use for a connection now. */
void periodic_drop_db(struct periodic *periodic);

#endif
