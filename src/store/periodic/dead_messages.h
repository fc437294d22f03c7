/*
 * The table side of the dead topic: elects the instance that produces dead messages, fetches the
 * next messages, and records that they were produced. Each function is one transaction, and none
 * waits for a message row. Blocking; one db, one thread.
 */
#ifndef STORE_PERIODIC_DEAD_MESSAGES_H
#define STORE_PERIODIC_DEAD_MESSAGES_H

#include "store/pg/db.h"

/* DEAD_ANOTHERS: another instance is elected, or this instance is fenced. */
enum { DEAD_ANOTHERS = 1 };
int dead_elect(struct db *db, int32_t instance, struct err *err);
/* Gives the election up, so that another instance can be elected at once. */
int dead_resign(struct db *db, int32_t instance, struct err *err);

/* One death of a message. A replayed message may die again, so the seq alone does not identify a
 * death. */
struct death {
	int64_t seq;
	int64_t died_us; /* dead_at, in microseconds since 1970 */
	bool refused;    /* PostgreSQL refused to mark it */
};

/* The number of messages that wait to be produced: all of them, and those that died after `after`
 * (seq 0 = from the beginning). Each number is at most `cap`. */
struct dead_waiting {
	int64_t all;
	int64_t behind;
};
int dead_count(struct db *db, int64_t cap, const struct death *after, struct dead_waiting *out,
	struct err *err);

struct dead_request {
	int max_rows;
	int64_t max_bytes;  /* in bytes; the row that reaches it is the last one */
	struct death after; /* the last death already seen; seq 0 = start with the first death */
	const struct death *without;
	size_t without_count;
};

/* The columns of dead_fetch(). DEAD_HEADERS is a sequence of names and values. An int4 length
 * precedes each of them; -1 = null. */
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
	DEAD_ERROR, /* the first 1,000 characters */
	DEAD_RETRIES,
	DEAD_CRASHES,
	DEAD_KEY,
	DEAD_HEADERS,
	DEAD_PAYLOAD,
	DEAD_DROPPED,  /* retention has removed the payload */
	DEAD_CONSUMER, /* NULL = the one without a name */
};
/* Fetches deaths in the order in which they happened. The caller frees the rows. */
int dead_fetch(
	struct db *db, const struct dead_request *request, struct rows **out, struct err *err);

/* Records that `deaths` were produced. Afterwards, also after a fault, the list and `count` contain only the deaths that
 * are not recorded. Their rows are locked at the moment, or PostgreSQL refuses to change them. `refusal` has the error of
 * the last refused row. Call the function again for them later. */
int dead_mark(
	struct db *db, struct death *deaths, size_t *count, struct err *refusal, struct err *err);

#endif
