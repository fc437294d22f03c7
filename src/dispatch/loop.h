/*
 * The dispatch thread: what its loop holds, and the files that run in it. Only the files of the loop
 * include this header; everybody else uses dispatch.h.
 *
 * Each room owns one part of struct dispatch. A room calls the rooms below it and records facts (lists, flags, counters)
 * for those above it, which look at them in the next round of the loop:
 *
 *	the loop   dispatch.c, arrivals.c, stopping.c, pausing.c
 *	sessions   connections, their lines and replies
 *	schedule   which connection gets which message
 *	groups     the handlers: their connections, subscriptions and shares
 *	table      what is read from PostgreSQL and written to it
 *	order      the messages in memory, as a state machine
 *	protocol   the words on the wire
 *	context    options, phase, the request for a round
 *
 * The way of a message:
 *
 *	arrivals.c, claim_results.c   a claimed message arrives, from ingest or from the table
 *	entries.c                     it becomes an entry; the routing assigns it a handler
 *	lanes.c                       it waits until it is the head of its lane
 *	handler_queues.c              it waits in the queue of its handler
 *	scheduler.c                   a connection of the handler has room for it
 *	delivery.c, connection.c      it is written to the socket
 *	requests.c, protocol/        the handler's answer is read
 *	sql_sessions.c                a SQL handler: a worker calls the function, and its result is the answer
 *	retry_policy.c                the answer, a timeout or a lost connection becomes a verdict
 *	settler.c                     the verdict is written to the table; then the entry is freed
 *
 * Threads: the dispatch thread owns everything here, except the fields that are marked. A worker owns a job while it
 * runs it, and nothing else.
 * Blocking: no function here waits for PostgreSQL, for a handler or for ingest.
 * Errors: a function that finds no memory leaves the state as it was, and a later round of the loop tries again,
 * unless its comment says otherwise.
 * Times: `*_ms` are milliseconds of clock_now_ms(), which does not follow changes of the system time.
 */
#ifndef DISPATCH_LOOP_H
#define DISPATCH_LOOP_H

#include "base/threads/thread.h"
#include "dispatch/context.h"
#include "dispatch/groups/handler_groups.h"
#include "dispatch/order/order.h"
#include "dispatch/schedule/schedule.h"
#include "dispatch/sessions/sql_sessions.h"
#include "dispatch/table/table.h"

/* What other threads ask for. Written by any thread, read by the dispatch thread. */
struct requests {
	atomic_bool stop;
	atomic_bool abandon;
	atomic_bool may_end; /* ingest has ended: no further batch arrives */
	_Atomic int64_t deadline_ms;
	const struct config *_Atomic next_config; /* a reloaded configuration; NULL = none */
};

/* See arrivals.c. */
struct arrivals {
	STAILQ_HEAD(, arrival) waiting; /* batches from ingest that wait for claims */
	STAILQ_HEAD(, job) claims;      /* finished claims that wait for a batch of ingest */
};

struct dispatch {
	struct context context;
	struct order order;
	struct table table;
	struct handler_groups groups;
	struct schedule schedule;
	struct sessions sessions;
	struct sql_sessions sql_sessions;
	struct arrivals arrivals;
	struct requests requests;
	struct event_base *base;
	struct event *tick;  /* every TICK_MS */
	struct event *woken; /* ingest or a worker has something for us */
	struct thread thread;
	struct metric *claimed_gauge;
	struct metric *claimed_bytes_gauge;
};

/* --- arrivals.c --- */

/* Takes all batches from the queue and admits those that need not wait for a claim. */
void arrivals_take(struct dispatch *dispatch);
/* Takes all finished jobs, each after what ingest has passed before. A claim that may have passed over rows of a batch
 * waits for this batch. */
void arrivals_take_jobs(struct dispatch *dispatch);
/* Frees the arrivals and the delayed claim. */
void arrivals_drop(struct dispatch *dispatch);

/* --- pausing.c --- */

/* Obeys what operators have paused or resumed since the last call. Takes the list if it differs. */
void pausing_take(struct dispatch *dispatch, struct pauses *pauses);

/* --- stopping.c --- */

/* Takes the next step of a stop that was asked for. Ends the loop after the last step. */
void stopping_check(struct dispatch *dispatch, int64_t now_ms);

#endif
