/*
 * The worker pool: threads with one PostgreSQL connection each, executing one job at a time for the
 * dispatch thread. A worker decides nothing. Jobs are given and taken back whole; while a worker has
 * one, nobody else touches it.
 */
#ifndef DISPATCH_WORKER_H
#define DISPATCH_WORKER_H

#include "base/queue.h"
#include "base/wake.h"
#include "store/claims.h"
#include "store/known_handlers.h"
#include "store/other_claims.h"
#include "store/settle.h"

enum job_kind {
	JOB_SETTLE,   /* rows, entries */
	JOB_RAISE,    /* rows, entries */
	JOB_DUE,      /* partitions -> claimed */
	JOB_LANES,    /* lanes -> claimed */
	JOB_SWEEP,    /* one partition -> waiting, page, released */
	JOB_RESCUE,   /* held -> rescued */
	JOB_GAUGES,   /* partitions -> gauges */
	JOB_HOLDS,    /* held -> states */
	JOB_HANDLERS, /* own -> known */
	JOB_KINDS
};

struct entry;

struct job {
	enum job_kind kind;
	/* In. */
	struct claim_request request;
	struct routing *routing;            /* owned snapshot behind request.routing */
	struct claim_partition *partitions; /* topics borrowed from the admission */
	size_t *indexes;                    /* of the partitions in the admission */
	uint64_t *versions;                 /* of the partitions when the job was made */
	int64_t *since;                     /* JOB_DUE: behind request.since */
	bool full;                          /* JOB_DUE: from the first row */
	size_t count;                       /* partitions, lanes, rows or held */
	struct claim_lane *lanes;
	struct settle_row *rows;
	bool isolate; /* JOB_SETTLE, and claims: rows that are refused alone do not fail it */
	struct refused_seqs without; /* a claim: rows it leaves out; it adds those that it finds */
	size_t without_given;
	struct entry **entries; /* behind the rows; not the worker's business */
	int64_t *seqs;          /* JOB_HOLDS: rising */
	uint64_t after;         /* JOB_SWEEP: where the page starts */
	bool first_page;
	int64_t cap;           /* JOB_GAUGES */
	int64_t placed;        /* JOB_GAUGES: admission_placed() before the look */
	bool seldom;           /* JOB_GAUGES: what only operators want, too */
	struct known_own *own; /* JOB_HANDLERS */
	int64_t memory_ms;     /* JOB_HANDLERS */
	int64_t lease_ms;      /* JOB_HANDLERS */
	uint64_t changes;      /* JOB_HANDLERS: of handlers when it was given */
	size_t reserved;       /* budget taken for it */
	uint64_t lost;         /* a claim: batches lost when it was given */
	uint64_t revocations;  /* a claim, a look: partitions gone when it was given */
	uint64_t behind;       /* a claim: the last batch it may have stepped over */
	/* Out. */
	int result; /* of the store's call */
	struct err err;
	struct claimed claimed;
	struct parked_page page;
	struct gauges gauges;
	struct known known;
	enum other_claims_state *states; /* JOB_HOLDS: of held */
	bool waiting;
	int64_t released;
	int64_t rescued;
	int64_t took_us;
};

struct job *job_new(enum job_kind kind);
/* Frees what is in it, also messages that nobody took. */
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
/* Interrupts what hangs, joins all threads, frees jobs that were not taken back. */
void worker_pool_free(struct worker_pool *pool);
/* Workers without a job, with one, and how many there are. Dispatch thread only, as the next two. */
size_t worker_pool_idle(const struct worker_pool *pool);
size_t worker_pool_busy(const struct worker_pool *pool);
size_t worker_pool_size(const struct worker_pool *pool);
/* Takes the job. Only when one is idle. */
void worker_pool_give(struct worker_pool *pool, struct job *job);
/* A finished job, or NULL. */
struct job *worker_pool_take(struct worker_pool *pool);

#endif
