/*
 * The worker pool: threads with one PostgreSQL connection each. Each executes one job at a time for the dispatch
 * thread, which never waits for PostgreSQL itself. A worker decides nothing and does not retry. In the pool that listens,
 * the first one also waits for notifications while it has no job.
 *
 * A job belongs to the dispatch thread until it is given, to the worker while it runs, and to the dispatch thread again
 * when it is taken back. Its result is in the job, also after a fault.
 */
#ifndef DISPATCH_TABLE_WORKER_H
#define DISPATCH_TABLE_WORKER_H

#include <sys/queue.h>

#include "base/buf.h"
#include "base/threads/queue.h"
#include "base/threads/wake.h"
#include "store/claims/claims.h"
#include "store/claims/known_handlers.h"
#include "store/claims/other_claims.h"
#include "store/claims/settle.h"
#include "store/claims/sql_calls.h"
#include "store/claims/waiting_rows.h"
#include "store/leased_requests.h"

enum job_kind {
	JOB_SETTLE,   /* writes verdicts */
	JOB_RAISE,    /* raises the crash counts of suspects */
	JOB_DUE,      /* claims due rows */
	JOB_LANES,    /* claims the next rows of lanes */
	JOB_SWEEP,    /* releases and finds parked rows */
	JOB_RESCUE,   /* gives back rows that memory does not hold */
	JOB_GAUGES,   /* counts what waits */
	JOB_HOLDS,    /* reads the state of rows that other instances hold */
	JOB_HANDLERS, /* exchanges known handlers */
	JOB_LOOK,     /* looks whether the periodic reads would find something */
	JOB_CALL,     /* calls a SQL handler */
	JOB_CALLABLE, /* checks whether a SQL handler can be called */
	JOB_LEASED,   /* a leased request of a client of the socket */
	JOB_KINDS
};

struct entry;
struct worker;

/* Streams of this instance that a job reads. */
struct job_streams {
	struct stream_ref *items; /* their names are borrowed from the admission */
	size_t *indexes;          /* the index of each stream in the admission */
	uint64_t *versions;       /* the version of each stream when the job was built */
	size_t count;
};

/* In each of the following, what a worker writes comes last, behind an empty line. */

/* JOB_SETTLE, JOB_RAISE. */
struct settle_job {
	struct entry **entries; /* the entry of each row; a worker does not touch them */
	size_t count;
	bool isolate;      /* try each row alone if PostgreSQL refuses one */
	size_t emit_bytes; /* of the events of all rows */

	struct settle_row *rows; /* their verdicts; the worker sets their status */
};

/* JOB_DUE, JOB_LANES. */
struct claim_job {
	uint64_t *hashes;     /* JOB_LANES: the key of each of job.streams */
	int64_t *since;       /* JOB_DUE: owned, request.since points to it */
	bool full;            /* JOB_DUE: a full scan (claim_cursor.h) */
	int64_t poll_at_ms;   /* JOB_DUE: claimer.poll_at_ms when it was given */
	bool isolate;         /* try each row alone if PostgreSQL refuses one */
	size_t without_given; /* the number of `without` before the claim */
	size_t reserved;      /* rows of budget reserved for it */
	/* State of the dispatch thread when the job was given, to recognise a result that is too old. */
	uint64_t lost;        /* commit_handover.lost */
	uint64_t revocations; /* order.revocations */
	/* The number of the last batch that it may have passed over. Set when the claim arrives. */
	uint64_t behind;

	struct refused_seqs without; /* rows to leave out; the worker adds those that it finds */
	struct claimed claimed;
};

/* JOB_SWEEP, of one stream. */
struct sweep_job {
	uint64_t after;  /* the key hash where the page starts ... */
	bool first_page; /* ... unless this is set */

	struct parked_page page;
	bool waiting;     /* the stream has waiting rows */
	int64_t released; /* parked rows that wait now */
};

/* JOB_RESCUE. */
struct rescue_job {
	struct held_claim *rows; /* the rows that memory holds */
	size_t count;

	int64_t rescued; /* rows that wait now */
};

/* JOB_GAUGES. */
struct gauges_job {
	int64_t cap;    /* the highest count that is of interest */
	int64_t placed; /* admission_placed() before the count */
	bool expensive; /* count the expensive gauges, too */

	struct gauges counts; /* the job has the known consumers from the beginning */
};

/* JOB_HOLDS. */
struct key_holds_job {
	int64_t *seqs; /* in rising order */
	size_t count;
	uint64_t revocations; /* order.revocations when the job was given */

	enum other_claims_state *states; /* of each of seqs */
};

/* JOB_HANDLERS. */
struct handlers_job {
	struct known_own *own; /* the handlers of this instance */
	size_t count;
	const struct consumers *consumers; /* those that this instance lists; borrowed */
	int64_t memory_ms;                 /* inbox.handler_memory */
	int64_t lease_ms;
	uint64_t changes; /* handler_groups.changes when the job was given */

	struct known known;
};

/* JOB_LOOK. */
struct look_job {
	int64_t lease_ms;
	int64_t memory_ms; /* inbox.handler_memory */

	struct table_look found;
};

/* JOB_CALL; JOB_CALLABLE without rows. */
struct call_job {
	const struct sql_handler *handler; /* borrowed */
	size_t count;

	struct call_row *rows; /* the worker sets their status */
};

/* JOB_LEASED. */
struct leased_job {
	enum leased_method method;
	struct buf params;
	void *request; /* for sessions/leased_requests.c; a worker does not touch it */

	enum leased_outcome outcome; /* counts if job.result is 0 */
	char *reply;                 /* the result as JSON, with LEASED_DONE; owned */
};

struct job {
	enum job_kind kind;
	struct claim_request request; /* of a claim; others need a part of it */
	struct routing *routing;      /* owned copy, to which request.routing points */
	struct job_streams streams;
	int64_t given_ms;      /* when the pool got it */
	struct worker *worker; /* for worker.c */
	union {
		struct settle_job settle;
		struct claim_job claim;
		struct sweep_job sweep;
		struct rescue_job rescue;
		struct gauges_job gauges;
		struct key_holds_job holds;
		struct handlers_job handlers;
		struct look_job look;
		struct call_job call;
		struct leased_job leased;
	};

	/* Written by the worker. */
	int result; /* what the function of src/store returned */
	struct err err;
	int64_t took_us;

	STAILQ_ENTRY(job) link; /* arrivals.c */
};

/* NULL: no memory. */
struct job *job_new(enum job_kind kind);
/* Frees the job with everything in it, also messages that were not taken. */
void job_free(struct job *job);

struct worker_pool;

struct worker_options {
	struct db_options db;
	size_t connections;
	bool listens;           /* for the notification inboxd_replay */
	struct wake *done_wake; /* poked when a job is done, and after a notification */
	int32_t instance;
};

int worker_pool_new(
	struct worker_pool **out, const struct worker_options *options, struct err *err);
/* Interrupts running statements, joins all threads, frees jobs that were not taken back. */
void worker_pool_free(struct worker_pool *pool);
/* Workers without a job, workers with one, and all workers. Dispatch thread only, like the next two. */
size_t worker_pool_idle(const struct worker_pool *pool);
size_t worker_pool_busy(const struct worker_pool *pool);
size_t worker_pool_size(const struct worker_pool *pool);
/* Takes ownership of the job. Call it only when a worker is idle. */
void worker_pool_give(struct worker_pool *pool, struct job *job);
/* A finished job, which the caller owns, or NULL. Does not block. */
struct job *worker_pool_take(struct worker_pool *pool);
/* True if rows may have become due since the last call: a notification has arrived, or might have been lost with a
 * connection. Any thread. */
bool worker_pool_take_notice(struct worker_pool *pool);

#endif
