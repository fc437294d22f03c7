/*
 * Declarations that the implementation files of inbox.h share: inbox.c (batches),
 * insert_conflicts.c (rows that are not new), insert_savepoints.c (bisection), inbox_rows.c
 * (parameters) and watermarks.c. No other file may include it.
 */
#ifndef STORE_INBOX_PRIVATE_H
#define STORE_INBOX_PRIVATE_H

#include "store/dedup_cache.h"
#include "store/inbox.h"

/* The results of the first pipeline of a batch. */
struct opening {
	struct rows *lease;
	struct rows *moved;
	struct rows *inserted;
};

struct inbox {
	struct db *db;
	int32_t instance;
	enum ordering ordering;
	void (*about_to_commit)(void *arg);
	void *arg;
	int64_t highest_seq;        /* of the rows whose COMMIT was answered (rule R3) */
	int64_t batch_highest;      /* of the batch in progress */
	int64_t floor;              /* every row of the batch in progress gets a higher seq */
	int64_t committing_highest; /* of the batch whose COMMIT is not answered yet */
	bool committing;            /* such a batch exists */
	struct dedup_cache *cache;  /* of events that are committed or will be */
	struct params params;       /* scratch for the statement being queued; libpq copies it */
	struct opening opening;
	size_t *items; /* indexes of the rows that were sent with it */
	size_t item_count;
	bool unsendable; /* the statement is larger than PostgreSQL accepts: bisect */
	bool damaged;    /* the sequence went backwards: see INBOX_DAMAGED */
	bool isolating;  /* see inbox_isolate() */
	bool isolate_next;
	bool commit_refused; /* the last attempt failed at its COMMIT */
	struct err odd; /* the last refusal of a row that the values of the row do not explain */
};

/* The format of inbox_offsets.last_digest: the offset it belongs to, most significant byte first,
 * then the digest. */
#define STORED_DIGEST_BYTES (8 + sizeof(((struct log_digest *)0)->bytes))
void stored_digest(unsigned char out[STORED_DIGEST_BYTES], int64_t last_offset,
	const struct log_digest *digest);

/* Each function resets and fills inbox->params. `items` are indexes of rows or rejects of the
 * batch. */
int fill_updates(struct inbox *inbox, const struct batch *batch, struct err *err);
void fill_messages(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
void fill_duplicates(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
void fill_conflicts(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
/* `bare`: only the coordinates and the reason. */
void fill_rejects(struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count,
	bool bare);

/* Rows of one kind while they are written to the table. */
struct writing {
	struct inbox *inbox;
	struct batch *batch;
	bool rejects; /* the items are rejects, not rows */
	/* Writes these items and records their results. */
	int (*write)(const struct writing *w, const size_t *items, size_t count, struct err *err);
	/* Handles an item that PostgreSQL refuses; `why` is the error. */
	int (*give_up)(
		const struct writing *w, size_t item, const struct err *why, struct err *err);
};

/* Writes under savepoints. It halves the items that PostgreSQL refuses until one item is alone;
 * that item is passed to give_up(). */
int writing_bisect(const struct writing *w, const size_t *items, size_t count, struct err *err);
/* True when PostgreSQL refused a value (or, while rows are isolated, a row for any reason) and the
 * transaction can continue from its savepoint. */
bool writing_is_refused(const struct writing *w, int r, const struct err *err);

/* True when a row of an answer refers to this message. */
typedef bool match_function(const struct message *message, const struct rows *rows, int row);

/* The answer of a statement about these items. */
struct answer {
	const struct rows *rows;
	const size_t *items;
	size_t count;
	match_function *match;
};

/* The position in `items` that `row` refers to. The search starts at `from` and wraps around: the
 * server returns rows in the order in which they were sent, so the next item is nearly always the
 * right one. Returns `count` when there is none. */
size_t writing_match(const struct writing *w, const struct answer *answer, int row, size_t from);
/* The indexes of the rows with this result. The caller frees them. */
int inbox_select_rows(const struct batch *batch, enum insert_result result, size_t **out,
	size_t *count, struct err *err);

/* Store the other content of a batch in its transaction: records that repeat an id with another
 * payload, and records that are no messages. */
int inbox_store_conflicts(struct inbox *inbox, struct batch *batch, struct err *err);
int inbox_store_rejects(struct inbox *inbox, struct batch *batch, struct err *err);
/* give_up() of rows: stores the record as a reject. The row stays in the batch, so that the
 * counters include it. */
int inbox_keep_as_reject(
	const struct writing *w, size_t item, const struct err *why, struct err *err);

#endif
