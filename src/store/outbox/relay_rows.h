/*
 * The table side of the relay: elects the instance that publishes events, reads events, and records what became of
 * them. Each function is one transaction. Blocking; one db, one thread.
 */
#ifndef STORE_OUTBOX_RELAY_ROWS_H
#define STORE_OUTBOX_RELAY_ROWS_H

#include "model/outbox/holds.h"
#include "model/outbox/holes.h"
#include "store/pg/db.h"

/* The positive result of relay_elect(), relay_renew() and relay_settle(): another instance is elected, or this one is
 * fenced. */
enum { RELAY_ANOTHERS = 1 };

struct relay_election {
	int64_t floor;       /* every event up to it is published, deferred or dead */
	int64_t last_number; /* of the sequence */
	int64_t transaction; /* id of the transaction */
	int64_t tip;         /* reading begins behind this seq, and in the holes */
};
/* Adds the stored holes to `holes`. */
int relay_elect(struct db *db, int32_t instance, struct relay_election *out, struct holes *holes,
	struct err *err);
/* Stays elected and stores the position. */
struct relay_position {
	int64_t tip;
	const struct holes *holes; /* up to the tip */
};
int relay_renew(struct db *db, int32_t instance, struct relay_position position,
	struct relay_election *out, struct err *err);
/* Lets another instance be elected at once. */
int relay_resign(struct db *db, int32_t instance, struct err *err);

/* The columns of a page of events; see sql/parts/relay_page_begin.sql. RELAY_HEADERS is a sequence of names and values
 * for rows_take_run(). */
enum relay_column {
	RELAY_SEQ,
	RELAY_FRESH, /* false: published, dead or deferred; only the seq counts */
	RELAY_BYTES, /* of the page up to this row */
	RELAY_EVENT_ID,
	RELAY_SOURCE,
	RELAY_TOPIC,
	RELAY_AGGREGATE,
	RELAY_KEY,
	RELAY_TYPE,
	RELAY_SUBJECT,
	RELAY_CONTENT_TYPE,
	RELAY_FORMAT,
	RELAY_HEADERS,
	RELAY_PAYLOAD,
	RELAY_CREATED,
	RELAY_RETRIES,
	RELAY_CAUSED_BY,
	RELAY_XMIN /* of relay_ask() only */
};

/* A page ends with the row that reaches one of these limits. */
struct relay_page {
	int rows;
	int64_t bytes;
	int64_t after; /* relay_read() and relay_low(): behind this seq */
};

struct relay_seqs {
	const int64_t *items;
	size_t count;
};

/* The next rows, fresh or not. The caller frees the rows, also those of the next functions. */
int relay_read(struct db *db, const struct relay_page *page, struct rows **out, struct err *err);
/* The fresh rows in the holes, the lowest ones first. */
struct relay_ask {
	const struct holes *holes;
	int64_t xmin; /* set: the horizon of the read */
	bool cut;     /* set: the page was too small for all rows */
};
int relay_ask(struct db *db, const struct relay_page *page, struct relay_ask *ask,
	struct rows **out, struct err *err);
/* The fresh rows up to this seq. */
int relay_low(struct db *db, const struct relay_page *page, int64_t last, struct rows **out,
	struct err *err);
/* Deferred rows whose time has come, without these. */
int relay_due(struct db *db, const struct relay_page *page, struct relay_seqs without,
	struct rows **out, struct err *err);
/* The rows with these seqs that are neither published nor dead. */
int relay_fetch(struct db *db, const struct relay_page *page, struct relay_seqs seqs,
	struct rows **out, struct err *err);

/* Rows without payload, for the holds. */
enum relay_place_column {
	PLACE_SEQ,
	PLACE_TOPIC,
	PLACE_AGGREGATE,
	PLACE_TYPE,
	PLACE_KEY,
	PLACE_CODE,  /* of relay_heads() only */
	PLACE_DUE_US /* of relay_heads() only: position of the row for the next page */
};
struct relay_head {
	int64_t due_us;
	int64_t seq;
};
/* Deferred rows that are not parked, after this one; { 0, 0 } = from the first one. */
int relay_heads(
	struct db *db, int max_rows, struct relay_head after, struct rows **out, struct err *err);
/* Parked rows behind the seq `after`. */
int relay_parked(struct db *db, int max_rows, int64_t after, struct rows **out, struct err *err);
/* Those of the seqs that are deferred no longer: one column with their places in the list. */
int relay_gone(struct db *db, struct relay_seqs seqs, struct rows **out, struct err *err);

/* What became of an event. */
enum relay_outcome { RELAY_RETRY, RELAY_PARK, RELAY_DEAD, RELAY_PUBLISHED };
struct relay_result {
	int64_t seq;
	enum relay_outcome outcome;
	int64_t delay_ms; /* RELAY_RETRY */
	int32_t retries;
	const char *code; /* NULL = keep; a constant */
	const char *error;
	int32_t partition; /* RELAY_PUBLISHED */
	int64_t offset;
	bool left_out; /* set: nothing is recorded, because somebody has locked the row */
	bool refused;  /* left out, because PostgreSQL refuses to change the row */
};
/* Published events and the others are recorded in transactions of their own, the published ones first. So a fault that
 * keeps an event from being deferred makes no copy of a published one. */
struct relay_settle {
	int32_t instance;
	bool published; /* records the published ones among the results; otherwise the others */
	bool keep;      /* published rows are marked and not deleted */
	struct relay_result *results;
	size_t count;
	int64_t transaction; /* set: the id of the transaction; 0 = there was nothing to record */
};
/* Records the results, except those whose rows somebody has locked. RELAY_ANOTHERS: nothing is recorded. db_error_is_lock():
 * nothing is recorded; call again. It waits for a row only if that was locked after the statement had looked at it. */
int relay_settle(struct db *db, struct relay_settle *settle, struct err *err);
/* Marks the results that relay_settle() would record as refused. */
void relay_leave_out(const struct relay_settle *settle);

/* For metrics; counts end at `cap`. */
struct relay_backlog {
	int64_t waiting;
	int64_t parked;
	int64_t dead;
	int64_t oldest_ms; /* age of the oldest event that waits; 0 = none */
};
int relay_backlog(struct db *db, int64_t cap, struct relay_backlog *out, struct err *err);

#endif
