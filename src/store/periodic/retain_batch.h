/*
 * Retention in batches: rows that are old enough by PostgreSQL's clock are deleted, or lose their
 * payload. The function inbox.retain() elects the instance that does it. One thread: the janitor's.
 */
#ifndef STORE_PERIODIC_RETAIN_BATCH_H
#define STORE_PERIODIC_RETAIN_BATCH_H

#include <stdbool.h>

#include "store/pg/db.h"

enum retain_kind {
	RETAIN_PAYLOAD, /* of processed messages */
	RETAIN_PROCESSED,
	RETAIN_DEAD,
	RETAIN_DEAD_PRODUCED, /* except those not yet produced to the dead topic */
	RETAIN_REJECTS,
	RETAIN_CONFLICTS,
	RETAIN_AUDIT,
	RETAIN_INSTANCES, /* rescued instances */
	RETAIN_OUTBOX,    /* published events */
	RETAIN_OUTBOX_DEAD,
	RETAIN_REQUESTS,        /* expired ones; the age is 0 */
	RETAIN_REQUESTS_LEASED, /* leave the index of leased ones; the age is 0 */
	RETAIN_KINDS
};

/* The name in log lines. */
const char *retain_name(enum retain_kind kind);

struct retain_batch {
	int32_t instance; /* the same in all batches of a call */
	enum retain_kind kind;
	int64_t age_ms;
	int max_rows; /* number of rows to examine; at least 1 */
};
struct retain_done {
	int64_t affected;
	bool more;          /* more rows are due; the next batch may follow at once */
	int64_t refused;    /* rows that PostgreSQL refuses; they are left out */
	struct err refusal; /* names the first of them and its error */
};
enum { RETAIN_ANOTHERS = 1 };
/* Runs batches of different kinds in one transaction, and fills an item of `out` for each. RETAIN_ANOTHERS: another instance is
 * elected, or this instance is fenced; nothing was done. Never waits for a row lock. */
int retain_run(struct db *db, const struct retain_batch *batches, size_t count,
	struct retain_done *out, struct err *err);

/* How many rows of this kind are so old. */
struct retain_preview {
	int64_t rows; /* at most 100000 */
	bool more;
};
int retain_preview(struct db *db, enum retain_kind kind, int64_t age_ms, struct retain_preview *out,
	struct err *err);

/* Requests with an idempotency key. */
struct request_counts {
	int64_t completed; /* above 10000 an estimate */
	int64_t pending;   /* at most 10000; so are the next two */
	int64_t failed;
	int64_t lost;
};
int retain_count_requests(struct db *db, struct request_counts *out, struct err *err);

#endif
