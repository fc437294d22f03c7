/*
 * Everything that dispatch reads from the table and writes to it. The dispatch thread builds jobs; workers execute
 * them, so nothing here waits for PostgreSQL. Dispatch thread only, except the listener for replays.
 *
 *	claims/            claims rows into memory
 *	settle/            writes verdicts
 *	maintenance_jobs   sweeps, gauges, the rescue of lost claims, the check of key holds
 *	jobs, worker       build a job, give it to a worker, take it back
 *
 * Errors: a job that finds no memory is not made, and a later round of the loop tries again.
 */
#ifndef DISPATCH_TABLE_TABLE_H
#define DISPATCH_TABLE_TABLE_H

#include "dispatch/order/order.h"
#include "dispatch/table/claims/claimer.h"
#include "dispatch/table/jobs.h"
#include "dispatch/table/maintenance_jobs.h"
#include "dispatch/table/settle/refused_verdicts.h"
#include "dispatch/table/settle/settler.h"
#include "dispatch/table/worker.h"

struct table {
	struct context *context;
	struct order *order;
	struct worker_pool *pool;
	struct database_state database;
	struct settler settler;
	struct claimer claimer;
	struct sweeps sweeps;
	struct gauges_schedule gauges;
	struct looks looks;
	struct metric *settle_seconds;
	struct metric *claim_seconds;
	struct metric *set_aside_gauge;
};

/* Without workers: the pool is given later. */
void table_init(struct table *table, struct context *context, struct order *order);
/* Interrupts running statements and waits for the workers to end. */
void table_fini(struct table *table);

#endif
