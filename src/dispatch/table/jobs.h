/*
 * Builds database jobs and gives them to workers. claimer.c and maintenance_jobs.c share these functions. A job is
 * built on the dispatch thread, belongs to one worker while it runs, and then returns to the dispatch thread
 * (arrivals_take_jobs). Dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_TABLE_JOBS_H
#define DISPATCH_TABLE_JOBS_H

#include "dispatch/core.h"

/* A job with the instance id, the ordering and a copy of the routing. NULL: no memory. */
struct job *jobs_new(struct dispatch *dispatch, enum job_kind kind);
/* Gives the job to an idle worker. Only after jobs_may_give() returned true in this round. */
void jobs_give(struct dispatch *dispatch, struct job *job);
/* Frees a job that is not given, and releases the budget it reserved. NULL is allowed. */
void jobs_drop(struct dispatch *dispatch, struct job *job);
/* Allocates room for this many partitions. False: no memory; call jobs_drop(). */
bool jobs_room(struct job *job, size_t partitions);
void jobs_add_partition(struct job *job, const struct admission_partition *partition, size_t index);
/* Adds the partitions of this instance; without `all` only those that may be claimed now. False: there are none, or no
 * memory. */
bool jobs_add_own(struct dispatch *dispatch, struct job *job, bool all);
/* The row limit of one statement: worker.claim_batch, halved while statements run into statement_timeout. */
size_t jobs_rows(const struct dispatch *dispatch);
/* True when a worker is idle. The last idle one of several is left to the settler while no settle runs. */
bool jobs_may_give(const struct dispatch *dispatch);

/* --- maintenance_jobs.c --- */

/* Makes the next sweep for parked rows and the next count of the gauges, when they are due. */
void maintenance_run(struct dispatch *dispatch, int64_t now_ms);
/* Checks the rows that other instances hold of our partitions. */
void maintenance_key_holds(struct dispatch *dispatch, int64_t now_ms);
/* After a claim whose outcome is unknown: gives back the rows that are claimed in the table and not in memory. */
void maintenance_rescue(struct dispatch *dispatch);

#endif
