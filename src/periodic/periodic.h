/*
 * Periodic work on the database, with its own thread and connection: retention, the dead topic, the
 * relay of the outbox, and what an instance does for the others. A task works in rounds. After a round the thread pauses for as long as the task asks; after a
 * fault the pause grows, between two limits of the task. Faults never end the process and never
 * delay a batch, a verdict or a heartbeat.
 *
 * The functions of the task run on that thread, one at a time. The configuration may change at any
 * time; the task receives the new one before its next round.
 */
#ifndef PERIODIC_PERIODIC_H
#define PERIODIC_PERIODIC_H

#include <stdatomic.h>

#include "base/outage_log.h"
#include "base/threads/thread.h"
#include "config/config.h"
#include "report/metrics.h"
#include "store/pg/db.h"

enum { PERIODIC_IDLE = 1 };

/* The functions and limits of a task. Constant; `arg` is periodic_options.arg. */
struct periodic_task {
	const char *thread;      /* name of the thread */
	int64_t lock_timeout_ms; /* an upper limit; a shorter configured timeout applies */
	int64_t statement_timeout_ms;
	int64_t fault_pause_least_ms;
	int64_t fault_pause_most_ms;
	int64_t stop_grace_ms; /* time for a running statement after a stop was requested */

	/* One round; sets *pause_ms unless it returns a fault. 0: done. PERIODIC_IDLE: there was
	 * nothing to do, which does not prove that an earlier fault is over. A fault: tried again
	 * after a growing delay. */
	int (*round)(void *arg, int64_t *pause_ms, struct err *err);
	/* The round failed and is tried again in retry_ms. `line`: the faults so far, to be logged;
	 * NULL: no line is due. */
	void (*failed)(
		void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line);
	/* The first successful round after faults. `line` as for failed(). */
	void (*recovered)(void *arg, const struct outage_log *line);
	/* Called before the first round and after each change. May be NULL. */
	void (*configured)(void *arg, const struct config *config);
	/* Called when the thread ends. May be NULL. */
	void (*end)(void *arg);
};

/* Keeps everything; it must outlive the runner. */
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
	const struct config *_Atomic config; /* any thread: the current configuration */
	/* the configuration of the last round; NULL before the first */
	const struct config *known;
	struct db *db; /* NULL until it is needed */
	/* held while `db` is created, and while another thread interrupts it */
	pthread_mutex_t db_lock;
	int64_t fault_pause_ms; /* 0: the last round succeeded */
	struct outage_log faults;
};

int periodic_init(
	struct periodic *periodic, const struct periodic_options *options, struct err *err);
/* A round in the calling thread, before the start. */
void periodic_run_round(struct periodic *periodic);
int periodic_start(struct periodic *periodic, struct err *err);
/* Any thread. The next round uses this configuration, which is kept. Ends the pause. */
void periodic_reload(struct periodic *periodic, const struct config *config);
/* Asks the thread to end. */
void periodic_request_stop(struct periodic *periodic);
/* Asks the thread to end and waits for stop_grace_ms; then it interrupts a running statement. */
void periodic_stop(struct periodic *periodic);
/* Call it after the thread has stopped or if it was never started; also after a failed
 * periodic_init(). */
void periodic_fini(struct periodic *periodic);

/* For the task: */
bool periodic_is_stopping(const struct periodic *periodic);
/* Creates the connection if there is none, and connects unless it is connected. */
int periodic_open_db(struct periodic *periodic, struct err *err);
/* The task needs no connection at present: closes it (db_rest()). */
void periodic_rest(struct periodic *periodic);

#endif
