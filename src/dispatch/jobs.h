/*
 * How a question to the table is made and given to a worker: what claimer.c and maintenance_jobs.c share. Dispatch thread only.
 */
#ifndef DISPATCH_JOBS_H
#define DISPATCH_JOBS_H

#include "dispatch/core.h"

/* A job that knows who asks and who wants what. NULL: no memory. */
struct job *jobs_new(struct dispatch *dispatch, enum job_kind kind);
/* Hands it to an idle worker, which jobs_may_give() has seen. */
void jobs_give(struct dispatch *dispatch, struct job *job);
/* It is not asked: gives its budget back and frees it. NULL: nothing. */
void jobs_drop(struct dispatch *dispatch, struct job *job);
/* False: no memory; jobs_drop() ends it. */
bool jobs_room(struct job *job, size_t partitions);
void jobs_add_partition(struct job *job, const struct admission_partition *partition, size_t index);
/* All partitions that are ours or, unless `all`, may be claimed from now. False: none, or no memory. */
bool jobs_add_own(struct dispatch *dispatch, struct job *job, bool all);
/* Rows to ask for at once: less as long as statements end by statement_timeout. */
size_t jobs_rows(const struct dispatch *dispatch);
/* Whether a worker is idle. One is left to the verdicts when there is more than one and they have none. */
bool jobs_may_give(const struct dispatch *dispatch);

/* --- maintenance_jobs.c --- */

/* What is seldom due: parked rows, how much waits. */
void maintenance_run(struct dispatch *dispatch, int64_t now_ms);
/* Rows of ours that others still hold. */
void maintenance_key_holds(struct dispatch *dispatch, int64_t now_ms);
/* After a claim whose outcome is unknown: gives back what memory does not hold. */
void maintenance_rescue(struct dispatch *dispatch);

#endif
