/*
 * The settler: writes verdicts to the table. See settler.c. Part of struct table; dispatch thread only; nothing here
 * blocks. Verdicts that wait for the next transaction are in order.verdicts.
 */
#ifndef DISPATCH_TABLE_SETTLE_SETTLER_H
#define DISPATCH_TABLE_SETTLE_SETTLER_H

#include "base/time/rate.h"
#include "dispatch/order/entry.h"
#include "dispatch/table/worker.h"

struct table;

struct settler {
	struct entry_list locked;  /* a handler's transaction locks their rows; by retry_at_ms */
	struct entry_list refused; /* PostgreSQL refuses their rows; by retry_at_ms */
	size_t refused_count;
	int64_t set_aside_total; /* entries whose verdicts are set aside, also those in jobs */
	struct entry_list raise; /* suspects whose crash counts must be raised before delivery */
	size_t raise_count;
	struct rate rate;      /* of the verdicts that wait, in waits of SETTLE_BATCH_WAIT_MS */
	size_t under_way;      /* entries in jobs that run */
	size_t jobs;           /* jobs that run */
	bool warned_of_events; /* a handler emitted events, and no relay runs here */
	struct metric *events_dropped;
};

void settler_init(struct settler *settler);
/* Adds a suspect whose crash count must be raised. */
void settler_add_raise(struct table *table, struct entry *entry);
/* Gives jobs to idle workers. Leaves one worker to the claimer if the claimer found none the last time. */
void settler_run(struct table *table, int64_t now_ms);
/* A JOB_SETTLE or JOB_RAISE has ended, with or without success. */
void settler_take(struct table *table, struct job *job);
/* True when no verdict waits, except those that are set aside and not due. */
bool settler_is_empty(const struct table *table);

#endif
