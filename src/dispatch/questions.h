/*
 * How a question to the table is made and given to a worker: what claimer.c and looks.c share. Dispatch thread only.
 */
#ifndef DISPATCH_QUESTIONS_H
#define DISPATCH_QUESTIONS_H

#include "dispatch/core.h"

/* A job that knows who asks and who wants what. NULL: no memory. */
struct job *question_new(struct dispatch *dispatch, enum job_kind kind);
/* Hands it to an idle worker, which question_may_give() has seen. */
void question_give(struct dispatch *dispatch, struct job *job);
/* It is not asked: gives its budget back and frees it. NULL: nothing. */
void question_drop(struct dispatch *dispatch, struct job *job);
/* False: no memory; question_drop() ends it. */
bool question_room(struct job *job, size_t partitions);
void question_add_partition(struct job *job, const struct gate_partition *partition, size_t index);
/* All partitions that are ours or, unless `all`, may be claimed from now. False: none, or no memory. */
bool question_add_own(struct dispatch *dispatch, struct job *job, bool all);
/* Rows to ask for at once: less as long as statements end by statement_timeout. */
size_t question_rows(const struct dispatch *dispatch);
/* Whether a worker is idle. One is left to the verdicts when there is more than one and they have none. */
bool question_may_give(const struct dispatch *dispatch);

/* --- looks.c --- */

/* What is seldom due: parked rows, how much waits. */
void looks_around(struct dispatch *dispatch, int64_t now_ms);
/* Rows of ours that others still hold. */
void looks_at_holds(struct dispatch *dispatch, int64_t now_ms);
/* After a claim whose outcome is unknown: gives back what memory does not hold. */
void looks_rescue(struct dispatch *dispatch);

#endif
