/*
 * Database jobs that claim nothing: see maintenance_jobs.c. Part of struct table; dispatch thread only; nothing here
 * blocks.
 */
#ifndef DISPATCH_TABLE_MAINTENANCE_JOBS_H
#define DISPATCH_TABLE_MAINTENANCE_JOBS_H

#include "dispatch/table/worker.h"

struct table;

/* The sweep for parked rows: a round over the dirty streams, page by page. */
struct sweeps {
	int64_t at_ms;
	size_t next;    /* index of the next stream to sweep */
	uint64_t after; /* the key hash where its next page starts, ... */
	bool page;      /* ... when this is set; else the stream starts from its first page */
	bool again;     /* a stream had more rows to release than one sweep releases */
};

/* When the gauges are counted. */
struct gauges_schedule {
	int64_t at_ms;
	/* Until then the gauges are not counted, unless ingest has placed a message since. */
	int64_t unchanged_until_ms;
	int64_t placed;     /* admission_placed() at the last count */
	int64_t sum;        /* rows that waited at the last count */
	int64_t slow_at_ms; /* the next count of the expensive gauges */
	size_t for_nobody;  /* consumers that were not known and had rows at the last count */
};

/* The look at the table (look_at_table.sql). */
struct looks {
	int64_t at_ms;    /* the next one */
	int64_t given_ms; /* when the last one that was answered was given; 0: none was */
	int64_t due_ms;   /* when it found that a row will be due; INT64_MAX: none */
	int64_t handlers_version;
};
/* True while the last look says what the table contains. Otherwise the periodic reads take place. */
bool looks_are_recent(const struct table *table, int64_t now_ms);

/* Makes the next look, the next sweep for parked rows and the next count of the gauges, when they are due. */
void maintenance_run(struct table *table, int64_t now_ms);
/* Checks the rows that other instances hold of our partitions. */
void maintenance_check_key_holds(struct table *table, int64_t now_ms);
/* After a claim whose outcome is unknown: gives back the rows that are claimed in the table and not in memory. */
void maintenance_rescue(struct table *table);
/* A job of these kinds has ended, with or without success. */
void maintenance_take(struct table *table, const struct job *job);

#endif
