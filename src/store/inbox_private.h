/* What the files of inbox.h share: inbox.c (batches), insert_conflicts.c (what is no new message), insert_savepoints.c (under
 * savepoints), inbox_rows.c (parameters) and watermarks.c. */
#ifndef STORE_INBOX_PRIVATE_H
#define STORE_INBOX_PRIVATE_H

#include "store/dedup_cache.h"
#include "store/inbox.h"

/* What the first flight of a batch brings. */
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
	int64_t highest_seq;       /* of the rows whose COMMIT was answered (rule R3) */
	int64_t batch_highest;     /* of the batch under way */
	int64_t floor;             /* every row of the batch under way gets a higher seq */
	int64_t landed_highest;    /* of the one whose COMMIT is on its way */
	bool committing;           /* there is one */
	struct dedup_cache *cache; /* of what is committed, or about to be */
	struct params params;      /* scratch for the statement being queued; libpq copies */
	struct opening opening;
	size_t *items; /* of the rows that went with it */
	size_t item_count;
	bool unsendable; /* more than PostgreSQL takes at once: to be bisected */
	bool damaged;    /* numbers fell: see INBOX_DAMAGED */
	bool isolating;  /* see inbox_isolate() */
	bool isolate_next;
	bool commit_refused; /* the last try got as far as its COMMIT */
	struct err odd;      /* the last refusal of a row that its values do not explain */
};

/* inbox_offsets.last_digest: the offset it belongs to, most significant byte first, and the digest. */
#define STORED_DIGEST_BYTES (8 + sizeof(((struct log_digest *)0)->bytes))
void stored_digest(unsigned char out[STORED_DIGEST_BYTES], int64_t last_offset,
	const struct log_digest *digest);

/* Each resets and fills inbox->params. `items` are indexes into the rows or rejects of the batch. */
int fill_moves(struct inbox *inbox, const struct batch *batch, struct err *err);
void fill_messages(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
void fill_duplicates(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
void fill_conflicts(
	struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count);
/* `bare`: coordinates and reason only. */
void fill_rejects(struct inbox *inbox, const struct batch *batch, const size_t *items, size_t count,
	bool bare);

/* One kind of rows on their way into the table. */
struct writing {
	struct inbox *inbox;
	struct batch *batch;
	bool rejects; /* items are its rejects, not its rows */
	/* Writes these items and notes what became of them. */
	int (*write)(const struct writing *w, const size_t *items, size_t count, struct err *err);
	/* What to do with an item that PostgreSQL refuses; `why` says why. */
	int (*give_up)(
		const struct writing *w, size_t item, const struct err *why, struct err *err);
};

/* Writes under savepoints, halving what PostgreSQL refuses until an item that cannot be stored is alone and is
 * given up. */
int writing_bisect(const struct writing *w, const size_t *items, size_t count, struct err *err);
/* PostgreSQL refused a value, or, while rows are isolated, a row for whatever reason; the transaction can be gone on with
 * from its savepoint. */
bool writing_is_refused(const struct writing *w, int r, const struct err *err);

/* Whether a message is the one that a row of an answer speaks of. */
typedef bool match_function(const struct message *message, const struct rows *rows, int row);

/* What a statement answered about these items. */
struct answer {
	const struct rows *rows;
	const size_t *items;
	size_t count;
	match_function *match;
};

/* Position in `items` of what `row` speaks of, looked for from `from` on, round the end: rows come back
 * in the order they went, so it is nearly always the next one. `count` = none. */
size_t writing_match(const struct writing *w, const struct answer *answer, int row, size_t from);
/* The rows with this result as indexes; freed by the caller. */
int inbox_select_rows(const struct batch *batch, enum insert_result result, size_t **out,
	size_t *count, struct err *err);

/* What a batch has besides its messages, in its transaction: records that repeat an id with another payload, and
 * those that are no messages. */
int inbox_store_conflicts(struct inbox *inbox, struct batch *batch, struct err *err);
int inbox_store_rejects(struct inbox *inbox, struct batch *batch, struct err *err);
/* give_up of rows: the record is kept among the rejects; its row stays in the batch for whoever counts. */
int inbox_keep_as_reject(
	const struct writing *w, size_t item, const struct err *why, struct err *err);

#endif
