/*
 * What the files of this room share: the batch writer itself, and the functions of batch_params.c
 * that turn a batch into statement parameters. No file outside of the room may include it.
 */
#ifndef STORE_BATCHES_WRITER_STATE_H
#define STORE_BATCHES_WRITER_STATE_H

#include "store/batches/batch_writer.h"
#include "store/batches/dedup_cache.h"

/* The results of the first pipeline of a batch. */
struct opening {
	struct rows *lease;
	struct rows *moved;
	struct rows *inserted;
};

struct batch_writer {
	struct db *db;
	int32_t instance;
	enum ordering ordering;
	bool moving; /* see batch_writer_set_moving() */
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
	bool single;            /* the batch was sent as a whole, see insert_single.sql */
	bool answered;          /* its COMMIT, too */
	int64_t single_from_ms; /* not before this time, because the statement has failed */
	bool unsendable;        /* the statement is larger than PostgreSQL accepts: bisect */
	bool damaged;           /* the sequence went backwards: see WRITER_DAMAGED */
	bool isolating;         /* see batch_writer_isolate() */
	bool isolate_next;
	bool commit_refused; /* the last attempt failed at its COMMIT */
	bool accepts;   /* PostgreSQL accepted a row of the kind that is written, or a bare one */
	struct err odd; /* the last refusal of a row that the values of the row do not explain */
	bool proved; /* PostgreSQL accepted a row that is held back, in a try that was rolled back */
};

/* The format of inbox_offsets.last_digest: the offset it belongs to, most significant byte first,
 * then the digest. */
#define STORED_DIGEST_BYTES (8 + sizeof(((struct log_digest *)0)->bytes))
void stored_digest(unsigned char out[STORED_DIGEST_BYTES], int64_t last_offset,
	const struct log_digest *digest);

/* Each function resets and fills writer->params. `items` are indexes of rows or rejects of the
 * batch. */
int fill_updates(struct batch_writer *writer, const struct batch *batch, struct err *err);
void fill_duplicates(
	struct batch_writer *writer, const struct batch *batch, const size_t *items, size_t count);
void fill_held(struct batch_writer *writer, const struct batch *batch);
/* `bare`: with the simplest id, key, headers and payload in place of their own. */
void fill_messages(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare);
/* The parameters of insert_single: a watermark update and a row. */
int fill_single(
	struct batch_writer *writer, const struct batch *batch, size_t item, struct err *err);
/* `bare`: likewise, but with their own ids. */
void fill_conflicts(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare);
/* `bare`: only the coordinates and the reason. */
void fill_rejects(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare);

/* Tells that a COMMIT is sent next. */
static inline void announce_commit(const struct batch_writer *writer)
{
	if (writer->about_to_commit != NULL)
		writer->about_to_commit(writer->arg);
}

/* single_row.c */

/* True if the batch consists of one row that is born claimed, and probably is no repeat. */
bool single_row_applies(const struct batch_writer *writer, const struct batch *batch);
/* Sends the statement, which also commits. Returns as db_commit_send(). */
int single_row_send(struct batch_writer *writer, const struct batch *batch, struct err *err);
/* Returns as db_commit_receive(). writer->answered: the row is stored. Otherwise nothing is, unless the result is unknown. */
int single_row_receive(struct batch_writer *writer, struct batch *batch, struct err *err);

/* held_rows.c */

/* True when the table must be asked for rows that are held back. Without an order nothing is. */
bool held_rows_possible(const struct batch_writer *writer, struct batch *batch);
/* Asks, inside the transaction of the batch: sets `held` of the rows, and `may_hold` of the updates. */
int held_rows_find(struct batch_writer *writer, struct batch *batch, struct err *err);
/* True if one of these rows is held back. */
bool held_rows_any(const struct batch *batch, const size_t *items, size_t count);
/* This row becomes a reject although its values are good: marks the later rows of its lane. False: it has no lane. */
bool held_rows_mark(const struct batch_writer *writer, struct batch *batch, size_t item);

#endif
