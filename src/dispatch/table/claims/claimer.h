/*
 * The claimer: decides when to claim rows from the table, and takes what a claim brings. See claimer.c for the rules
 * and claim_results.c for the results. Part of struct table; dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_TABLE_CLAIMS_CLAIMER_H
#define DISPATCH_TABLE_CLAIMS_CLAIMER_H

#include "dispatch/table/claims/claim_cursor.h"
#include "dispatch/table/claims/refused_rows.h"
#include "dispatch/table/worker.h"

struct table;

struct claimer {
	int64_t poll_at_ms; /* the next claim of due rows, whether a due row is known or not */
	int64_t quiet_poll_at_ms; /* poll_at_ms as the last claim set it, when it found that nothing is due */
	bool rescue; /* the outcome of a claim is unknown: claim nothing until it is resolved */
	size_t claims_under_way; /* JOB_DUE and JOB_LANES that run */
	/* The bytes that those may bring. A claim can exceed its part by its last row. */
	size_t bytes_asked;
	struct claim_cursor cursor;
	struct refused_rows refused; /* rows that claims leave out */
	bool last_was_lanes; /* the last claim was for lanes: the next one is for due rows */
	bool last_was_claim; /* the last job was a claim: maintenance comes before the next one */
	bool more_due;       /* the last claim of due rows left some in the table */
	bool needs_worker;   /* no worker was idle: the settler leaves one to the claimer */
};

/* Gives the rescue of a lost claim to an idle worker. Call it first in a round: the rescue has priority, and it runs
 * during a stop as well, because arrivals wait for it before they are returned to the table. */
void claimer_run_rescue(struct table *table, int64_t now_ms);
/* Gives claims and maintenance jobs to idle workers. */
void claimer_run(struct table *table, int64_t now_ms);
/* True while rows of a lost claim may be claimed in the table and unknown in memory. */
bool claimer_in_doubt(const struct table *table);
/* Makes a full scan for due rows now. */
void claimer_scan_soon(struct table *table);
/* Subscriptions changed or partitions were acquired: looks for parked rows now. */
void claimer_sweep_soon(struct table *table);

/* --- claim_results.c --- */

/* A JOB_DUE or JOB_LANES has ended, with or without success. Takes the messages out of it. */
void claim_results_take(struct table *table, struct job *job);

#endif
