/*
 * Builds database jobs, gives them to workers and takes them back. A job is built on the dispatch thread, belongs to
 * one worker while it runs, and then returns to the dispatch thread (arrivals.c). The result of each job also tells
 * whether the database works, and so when the next job is given. Dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_TABLE_JOBS_H
#define DISPATCH_TABLE_JOBS_H

#include "base/outage_log.h"
#include "dispatch/table/worker.h"
#include "model/admission/admission.h"

struct table;

/* What the last jobs tell about the database, and what may be asked of it. */
struct database_state {
	struct outage_log outage; /* jobs in a row that failed because of the database */
	bool connection_was_lost; /* one of them lost its connection */
	int64_t hold_until_ms;    /* no job is started before, because the database failed */
	int holds;                /* in a row: the next one is longer */
	unsigned
		halvings; /* how often worker.claim_batch is halved, because statements were slow */
	unsigned in_time; /* claims that brought rows in time since the last change of it */
	size_t rotation;  /* the stream that the next job lists first, for fairness */
	bool under_way[JOB_KINDS]; /* a job of this kind runs; not for JOB_SETTLE and JOB_RAISE */
	bool last_was_leased; /* of leased requests and the jobs of the claimer, which take turns */
};

/* A job with the instance id and a copy of the routing. NULL: no memory. */
struct job *jobs_new(struct table *table, enum job_kind kind);
/* Gives the job to an idle worker. Only after jobs_may_give() returned true in this round. */
void jobs_give(struct table *table, struct job *job);
/* Frees a job that is not given, and releases the budget it reserved. NULL is allowed. */
void jobs_drop(struct table *table, struct job *job);
/* The next finished job, which the caller owns, or NULL. Notes whether the database works. */
struct job *jobs_take(struct table *table);
/* A job that jobs_give() gave has been taken back. Another one of its kind may be given. */
void jobs_ended(struct table *table, const struct job *job);

/* Allocates room for this many streams. False: no memory; call jobs_drop(). */
bool jobs_room(struct job *job, size_t streams);
void jobs_add_stream(struct job *job, const struct admission_stream *stream, size_t index);
/* Adds the streams that are assigned to this instance; without `all` only those that may be claimed now, and then
 * there must be one. False: there is none, no partition was ever assigned, or no memory. */
bool jobs_add_own(struct table *table, struct job *job, bool all);
/* True when rows of the stream may be claimed: an open handler of its consumer is connected, or the stream is in overflow. With
 * `ordering: partition` memory must hold no message of the stream. */
bool jobs_may_claim_of(
	const struct table *table, const struct admission_stream *stream, size_t index);
/* The row limit of one statement: worker.claim_batch, halved while statements run into statement_timeout. */
size_t jobs_rows(const struct table *table);

/* True when a worker is idle. The last idle one of several is left to the settler while no settle runs. */
bool jobs_may_give(const struct table *table);
/* True when the database failed a moment ago: no job is given. */
bool jobs_are_on_hold(const struct table *table, int64_t now_ms);

#endif
