/*
 * What the dead topic has not heard of: which instance tells it, the next messages, and the note that they were
 * told. Each call is a transaction of its own; none waits for a message row. One thread.
 */
#ifndef STORE_DEAD_H
#define STORE_DEAD_H

#include "store/db.h"

/* DEAD_ANOTHERS: another instance produces them, or this one is fenced. */
enum { DEAD_ANOTHERS = 1 };
int dead_elect(struct db *db, int32_t instance, struct err *err);
/* Another instance may try. */
int dead_resign(struct db *db, int32_t instance, struct err *err);

/* One death of a message: a replayed one may die again. */
struct death {
	int64_t seq;
	int64_t died_us; /* dead_at, microseconds since 1970 */
};

/* How many wait to be produced, and how many of them behind a death in the order of dying (seq 0 = before all); each
 * at most `cap`. */
struct dead_waiting {
	int64_t all;
	int64_t behind;
};
int dead_count(struct db *db, int64_t cap, const struct death *place, struct dead_waiting *out,
	struct err *err);

struct dead_request {
	int max_rows;
	int64_t max_bytes;  /* the row that reaches it is the last one */
	struct death after; /* seq 0 = from the first one */
	const struct death *without;
	size_t without_count;
};

/* Columns of what dead_fetch() gives. Headers are runs of bytes: for each the name and the value, each
 * behind its length (int4, -1 = null). */
enum dead_column {
	DEAD_SEQ,
	DEAD_DIED_US,
	DEAD_AT,
	DEAD_SOURCE,
	DEAD_EVENT_ID,
	DEAD_EVENT_TYPE,
	DEAD_TOPIC,
	DEAD_PARTITION,
	DEAD_OFFSET,
	DEAD_TIMESTAMP,
	DEAD_CODE,
	DEAD_ERROR, /* its first 1,000 characters */
	DEAD_RETRIES,
	DEAD_CRASHES,
	DEAD_KEY,
	DEAD_HEADERS,
	DEAD_PAYLOAD,
	DEAD_DROPPED /* retention has dropped the payload */
};
/* In the order they died; the caller frees the rows. */
int dead_fetch(
	struct db *db, const struct dead_request *request, struct rows **out, struct err *err);

/* Notes that `deaths` were produced, and leaves in the list (`count`) those whose row is locked just
 * now. */
int dead_mark(struct db *db, struct death *deaths, size_t *count, struct err *err);

#endif
