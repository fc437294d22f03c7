/*
 * The worker pool: threads with one PostgreSQL connection each. Each executes one job at a time for the dispatch
 * thread, which never waits for PostgreSQL itself. A worker decides nothing and does not retry.
 *
 * A job belongs to the dispatch thread until it is given, to the worker while it runs, and to the dispatch thread again
 * when it is taken back. Its result is in the job, also after a fault.
 */
#ifndef DISPATCH_TABLE_WORKER_H
#define DISPATCH_TABLE_WORKER_H

#include "base/queue.h"
#include "base/wake.h"
#include "store/claims/claims.h"
#include "store/claims/known_handlers.h"
#include "store/claims/other_claims.h"
#include "store/claims/settle.h"
#include "store/claims/waiting_rows.h"

/* What a job does. In brackets: what it reads -> what it returns. */
enum job_kind {
	JOB_SETTLE, /* writes verdicts [rows -> status of each row] */
	JOB_RAISE,  /* raises the crash counts of suspects [rows -> status of each row] */
	JOB_DUE,    /* claims due rows [partitions -> claimed] */
	JOB_LANES,  /* claims the next rows of lanes [lanes -> claimed] */
	JOB_SWEEP,  /* releases and finds parked rows [one partition -> waiting, page, released] */
	JOB_RESCUE, /* gives back rows that memory does not hold [seqs -> rescued] */
	JOB_GAUGES, /* counts what waits [partitions -> gauges] */
	JOB_HOLDS,  /* reads the state of rows that other instances hold [seqs -> states] */
	JOB_HANDLERS, /* exchanges known handlers [own -> known] */
	JOB_KINDS
};

struct entry;

struct job {
	enum job_kind kind;

	/* Written before the job is given. */
	struct claim_request request;
	struct routing *routing;          /* owned copy, to which request.routing points */
	struct partition_ref *partitions; /* their topics are borrowed from the admission */
	size_t *indexes;                  /* the index of each partition in the admission */
	uint64_t *versions;               /* the version of each partition when the job was built */
	int64_t *since;                   /* JOB_DUE: owned, request.since points to it */
	bool full;                        /* JOB_DUE: a full scan (claim_cursor.h) */
	size_t count;                     /* of partitions, lanes, rows, seqs or own */
	struct claim_lane *lanes;
	struct settle_row *rows;
	struct entry **entries; /* the entry of each row; a worker does not touch them */
	bool isolate; /* JOB_SETTLE, and claims: try each row alone if PostgreSQL refuses one */
	struct refused_seqs without; /* a claim: rows to leave out; it adds those that it finds */
	size_t without_given;        /* the number of those before the claim */
	int64_t *seqs;               /* JOB_RESCUE; JOB_HOLDS: in rising order */
	uint64_t after;              /* JOB_SWEEP: the key hash where the page starts ... */
	bool first_page;             /* ... unless this is set */
	int64_t cap;                 /* JOB_GAUGES: the highest count that is of interest */
	int64_t placed;              /* JOB_GAUGES: admission_placed() before the count */
	bool expensive;              /* JOB_GAUGES: count the expensive gauges, too */
	struct known_own *own;       /* JOB_HANDLERS: the handlers of this instance */
	int64_t memory_ms;           /* JOB_HANDLERS: inbox.handler_memory */
	int64_t lease_ms;            /* JOB_HANDLERS */
	uint64_t changes;            /* JOB_HANDLERS: handler_memory.changes when it was given */
	size_t reserved;             /* a claim: rows of budget reserved for it */
	/* State of the dispatch thread when the job was given, to recognise a result that is too old. */
	uint64_t lost;        /* a claim: commit_handover.lost */
	uint64_t revocations; /* a claim or a check of held rows: dispatch.revocations */
	/* A claim: the number of the last batch that it may have passed over. Set when the claim arrives. */
	uint64_t behind;

	/* Written by the worker. */
	int result; /* what the function of src/store returned */
	struct err err;
	struct claimed claimed;
	struct parked_page page;
	struct gauges gauges;
	struct known known;
	enum other_claims_state *states; /* JOB_HOLDS: of each of seqs */
	bool waiting;                    /* JOB_SWEEP: the partition has waiting rows */
	int64_t released;                /* JOB_SWEEP: parked rows that wait now */
	int64_t rescued;                 /* JOB_RESCUE: rows that wait now */
	int64_t took_us;
};

/* NULL: no memory. */
struct job *job_new(enum job_kind kind);
/* Frees the job with everything in it, also messages that were not taken. */
void job_free(struct job *job);

struct worker_pool;

struct worker_options {
	struct db_options db;
	size_t connections;
	struct wake *done_wake; /* poked when a job is done */
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

#endif
