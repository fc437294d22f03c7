/*
 * Runs the transaction of a batch. The normal case takes two pipelines (ADR 10): everything up to the rows of the
 * INSERT, then COMMIT. A batch of a single row takes one (ADR 48): its statement does everything or nothing, and in the
 * second case the batch begins again with two pipelines. Only if PostgreSQL refuses a value, the batch starts again under savepoints
 * and is halved until the row that cannot be stored is alone. It becomes a reject only if PostgreSQL
 * accepts another row of the batch, or this one without its values. A reject whose values are good holds back the later
 * records of its lane (held_rows.c).
 *
 * In the same transaction it stores completely what is no new message: records that repeat an id
 * with another payload (conflicts), and records that are no messages (rejects).
 *
 * Crash window: between COMMIT and its answer. If the answer is lost, the result is WRITER_UNKNOWN,
 * and watermarks_resync() finds out what happened.
 */
#include "store/batches/batch_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/text/utf8.h"
#include "model/identity/identity.h"
#include "queries.h"
#include "store/batches/writer_state.h"

DEFINE_CLEANUP(struct batch_writer *, batch_writer_free);

int batch_writer_new(
	struct batch_writer **out, const struct batch_writer_options *options, struct err *err)
{
	CLEANUP(batch_writer_freep) struct batch_writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (writer == NULL)
		return err_memory(err);
	params_init(&writer->params);
	writer->db = options->db;
	writer->instance = options->instance;
	writer->ordering = options->ordering;
	writer->about_to_commit = options->committing;
	writer->arg = options->arg;
	writer->highest_seq = options->first_low_seq - 1;
	r = dedup_cache_new(&writer->cache, err);
	if (r != 0)
		return r;
	*out = writer;
	writer = NULL;
	return 0;
}

static void opening_fini(struct opening *opening)
{
	rows_free(opening->lease);
	rows_free(opening->moved);
	rows_free(opening->inserted);
	*opening = (struct opening){ NULL, NULL, NULL };
}

static void drop_pipeline(struct batch_writer *writer)
{
	opening_fini(&writer->opening);
	free(writer->items);
	writer->items = NULL;
}

void batch_writer_free(struct batch_writer *writer)
{
	if (writer == NULL)
		return;
	params_fini(&writer->params);
	drop_pipeline(writer);
	dedup_cache_free(writer->cache);
	free(writer);
}

void batch_writer_set_moving(struct batch_writer *writer, bool moving)
{
	writer->moving = moving;
}

void batch_writer_set_ordering(struct batch_writer *writer, enum ordering ordering)
{
	writer->ordering = ordering;
}

/* Rows of one kind while they are written to the table. */
struct writing {
	struct batch_writer *writer;
	struct batch *batch;
	enum query query;
	/* The parameters of the query; `bare`: without the values of the items. */
	void (*fill)(struct batch_writer *writer, const struct batch *batch, const size_t *items,
		size_t count, bool bare);
	/* Records the results of these items. */
	int (*note)(const struct writing *w, const size_t *items, size_t count,
		const struct rows *rows, struct err *err);
	/* Handles an item that PostgreSQL refuses; `why` is the error. */
	int (*give_up)(
		const struct writing *w, size_t item, const struct err *why, struct err *err);
};

static bool writes_rejects(const struct writing *w)
{
	return w->query == QUERY_INSERT_REJECTS;
}

/* True when PostgreSQL refused a value (or, while rows are isolated, a row for any reason) and the
 * transaction can continue from its savepoint. */
static bool is_refused(const struct writing *w, int r, const struct err *err)
{
	const struct batch_writer *writer = w->writer;

	if (r >= 0 || !db_is_open(writer->db))
		return false;
	/* a reject that is not stored completely loses its bytes; only a bad value justifies that */
	if (db_error_is_data(writer->db, err) || !writer->isolating || writes_rejects(w))
		return db_error_is_data(writer->db, err);
	return db_error_may_be_row(err) && !db_error_is_clash(writer->db, err);
}

static int write_items(
	const struct writing *w, const size_t *items, size_t count, bool bare, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	w->fill(w->writer, w->batch, items, count, bare);
	r = db_step(w->writer->db, w->query, &w->writer->params, &rows, err);
	if (r != 0)
		return r;
	w->writer->accepts |= rows_count(rows) > 0;
	return bare && !writes_rejects(w) ? 0 : w->note(w, items, count, rows, err);
}

/*
 * Finds out whether a value of this item is the cause of `why`: then PostgreSQL accepts the item without its values, or it
 * accepted another one before. Otherwise the cause is the database, for example a trigger of the user whose table has no
 * partition for today, and no row becomes a reject. The bare item is rolled back at once.
 */
static int try_bare(const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_writer *writer = w->writer;
	struct err own = ERR_INIT;
	int r;

	if (writes_rejects(w) || writer->accepts || writer->odd.fault != 0 ||
		!db_error_is_data(writer->db, why))
		return 0;
	r = write_items(w, &item, 1, true, &own);
	if (r != 0 && (!db_is_open(writer->db) || !db_error_may_be_row(&own))) {
		*err = own;
		return r;
	}
	r = db_rollback_to_savepoint(writer->db, err);
	if (r != 0 || writer->accepts || writer->isolating)
		return r;
	*err = *why;
	return why->fault;
}

/* Stores the record of a row as a reject. The row stays in the batch, so that the counters include it. */
static int keep_record(
	const struct writing *w, size_t item, const char *reason, bool holds, struct err *err)
{
	struct batch_row *row = &w->batch->rows[item];
	struct message *copy = NULL;
	int r = message_new(&copy, row->message, err);

	if (r == 0)
		r = batch_reject(w->batch, copy, reason, err);
	if (r != 0)
		return r;
	w->batch->rejects[w->batch->reject_count - 1].refused = true;
	w->batch->rejects[w->batch->reject_count - 1].holds = holds;
	if (row->result != ROW_DUPLICATE)
		row->result = ROW_REJECTED;
	return 0;
}

/* A row that is held back by a refused row of this batch may be the only row that can show whether PostgreSQL accepts other
 * rows. So it is inserted, and rolled back. */
static int try_held(const struct writing *w, size_t item, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct batch_writer *writer = w->writer;
	int r;

	if (writer->odd.fault == 0 || writer->proved)
		return 0;
	r = db_savepoint(writer->db, err);
	if (r != 0)
		return r;
	w->fill(writer, w->batch, &item, 1, false);
	r = db_step(writer->db, w->query, &writer->params, &rows, err);
	if (r != 0 && !is_refused(w, r, err))
		return r;
	writer->proved = r == 0 && rows_count(rows) > 0;
	return db_rollback_to_savepoint(writer->db, err);
}

static int keep_behind(const struct writing *w, size_t item, struct err *err)
{
	int r = try_held(w, item, err);

	return r != 0 ? r
		      : keep_record(w, item,
				"behind: an earlier record of its key or partition is rejected; "
				"`inboxd replay --rejects` stores both in their order",
				true, err);
}

/* Writes under savepoints. It halves the items that PostgreSQL refuses until one item is alone;
 * that item is passed to give_up(). */
static int write_bisected(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	struct err why = ERR_INIT;
	size_t half = count / 2;
	bool held = w->query == QUERY_INSERT_MESSAGES && held_rows_any(w->batch, items, count);
	int r = 0;

	if (count == 0)
		return 0;
	if (held && count == 1)
		return keep_behind(w, items[0], err);
	if (!held) {
		r = db_savepoint(w->writer->db, err);
		if (r == 0)
			r = write_items(w, items, count, false, err);
		if (!is_refused(w, r, err))
			return r;
		why = *err;
		r = db_rollback_to_savepoint(w->writer->db, err);
	}
	if (r == 0 && count == 1)
		r = try_bare(w, items[0], &why, err);
	if (r != 0)
		return r;
	if (count == 1)
		return w->give_up(w, items[0], &why, err);
	r = write_bisected(w, items, half, err);
	return r != 0 ? r : write_bisected(w, items + half, count - half, err);
}

/* True when a row of an answer refers to this message. */
typedef bool match_function(const struct message *message, const struct rows *rows, int row);

/* Matches by id and consumer. Coordinates can occur twice in a batch, after a topic recreation. */
static bool has_id(const struct message *message, const struct rows *rows, int row)
{
	return strcmp(message->event_id, rows_text(rows, row, 1)) == 0 &&
	       strcmp(message->source, rows_text(rows, row, 2)) == 0 &&
	       strcmp(message->consumer, rows_text(rows, row, 4)) == 0;
}

static bool has_coordinates(const struct message *message, const struct rows *rows, int row)
{
	return message->offset == rows_int(rows, row, 2) &&
	       message->partition == rows_int(rows, row, 1) &&
	       strcmp(message->topic, rows_text(rows, row, 0)) == 0;
}

static bool has_coordinates_and_id(const struct message *message, const struct rows *rows, int row)
{
	return has_coordinates(message, rows, row) &&
	       strcmp(message->event_id, rows_text(rows, row, 3)) == 0;
}

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
static size_t match_row(const struct writing *w, const struct answer *answer, int row, size_t from)
{
	for (size_t i = 0; i < answer->count; i++) {
		size_t at = (from + i) % answer->count;
		size_t item = answer->items[at];

		if (answer->match(writes_rejects(w) ? w->batch->rejects[item].message
						    : w->batch->rows[item].message,
			    answer->rows, row))
			return at;
	}
	return answer->count;
}

/* The indexes of the rows with this result. The caller frees them. */
static int select_rows(const struct batch *batch, enum insert_result result, size_t **out,
	size_t *count, struct err *err)
{
	size_t *items = calloc(batch->row_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	*count = 0;
	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].result == result)
			items[(*count)++] = i;
	}
	*out = items;
	return 0;
}

/* The function give_up() for rows. If the values of the row are not the cause, its record holds back the later records of
 * its lane. */
static int keep_as_reject(
	const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	char reason[sizeof(w->batch->rejects->reason)];
	bool good = !db_error_is_data(w->writer->db, why);

	(void)snprintf(reason, sizeof(reason), "storage: %s %.400s", why->state, why->text);
	if (!w->writer->accepts || good)
		w->writer->odd = *why;
	good = good && w->query == QUERY_INSERT_MESSAGES &&
	       held_rows_mark(w->writer, w->batch, item);
	return keep_record(w, item, reason, good, err);
}

/* The sequence went backwards while this instance was running, so another server with older data
 * has replaced the one that assigned the earlier numbers. A row with a lower number would be below
 * low_seq, where no rescue searches (rule R3). */
static int report_lower_seq(const struct batch_writer *writer, int64_t seq, struct err *err)
{
	return err_set(err, FAULT_DATABASE,
		"a new row of inbox_messages got number %" PRId64 ", which is not above %" PRId64,
		seq, writer->floor);
}

static int note_inserted(const struct writing *w, const size_t *items, size_t count,
	const struct rows *rows, struct err *err)
{
	const struct answer answer = { rows, items, count, has_id };
	struct batch_writer *writer = w->writer;
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		w->batch->rows[items[i]].result = ROW_DUPLICATE;
	for (int i = 0; i < rows_count(rows); i++) {
		int64_t seq = rows_int(rows, i, 0);
		bool claimed = rows_bool(rows, i, 3);
		struct batch_row *row;

		at = match_row(w, &answer, i, at);
		if (at == count)
			return err_set(err, FAULT_INTERNAL,
				"PostgreSQL stored an event that was not in the batch: %s of %s",
				rows_text(rows, i, 1), rows_text(rows, i, 2));
		if (seq <= writer->floor) {
			writer->damaged = true;
			return report_lower_seq(writer, seq, err);
		}
		row = &w->batch->rows[items[at++]];
		row->result = claimed ? ROW_CLAIMED : ROW_STORED;
		row->message->seq = seq;
		row->message->delivery_count = claimed ? 1 : 0;
		if (seq > writer->batch_highest)
			writer->batch_highest = seq;
		dedup_cache_add(writer->cache, row->message);
	}
	return 0;
}

static int note_conflicts(const struct writing *w, const size_t *items, size_t count,
	const struct rows *rows, struct err *err)
{
	const struct answer answer = { rows, items, count, has_coordinates_and_id };
	size_t at = 0;

	(void)err;
	for (int i = 0; i < rows_count(rows); i++) {
		at = match_row(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rows[items[at++]].result = ROW_CONFLICT;
	}
	return 0;
}

static int note_rejects(const struct writing *w, const size_t *items, size_t count,
	const struct rows *rows, struct err *err)
{
	const struct answer answer = { rows, items, count, has_coordinates };
	size_t at = 0;

	(void)err;
	for (int i = 0; i < rows_count(rows); i++) {
		at = match_row(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rejects[items[at++]].kept = true;
	}
	return 0;
}

/* give_up() of rejects: even the reject cannot be stored completely. Stores only its coordinates
 * and the reason. */
static int keep_bare(const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_reject *reject = &w->batch->rejects[item];
	size_t used = strlen(reject->reason);

	(void)snprintf(reject->reason + used, sizeof(reject->reason) - used, "; not kept whole: %s",
		why->text);
	utf8_repair(reject->reason);
	return write_items(w, &item, 1, true, err);
}

/* True if the conflict is one of coordinates, not of an id that a producer has sent. Two records of one log never have
 * the same coordinates. */
static bool is_of_other_log(struct batch *batch, const struct message *message, bool stored)
{
	if (!stored || !identity_is_of_coordinates(message))
		return false;
	for (size_t i = 0; i < batch->update_count; i++) {
		struct watermark_update *update = &batch->updates[i];

		if (update->partition != message->partition ||
			strcmp(update->topic, message->topic) != 0)
			continue;
		if (update->other_log_from < 0 || message->offset < update->other_log_from)
			update->other_log_from = message->offset;
		return true;
	}
	return false;
}

/* Keeps the duplicates in `items` whose payload differs from the stored one. Asks the server only
 * about those that do not repeat a recently stored message according to the cache. */
static int keep_conflicts(struct batch_writer *writer, struct batch *batch, size_t *items,
	size_t *count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	bool other_log = false;
	size_t asked = 0;
	int kept = 0;
	int r;

	for (size_t i = 0; i < *count; i++) {
		if (!dedup_cache_has(writer->cache, batch->rows[items[i]].message))
			items[asked++] = items[i];
	}
	*count = 0;
	if (asked == 0)
		return 0;
	fill_duplicates(writer, batch, items, asked);
	r = db_step(writer->db, QUERY_FIND_CONFLICTS, &writer->params, &rows, err);
	if (r != 0)
		return r;
	for (size_t i = 0; i < asked; i++) {
		const struct message *message = batch->rows[items[i]].message;

		if (kept < rows_count(rows) && rows_int(rows, kept, 0) == (int64_t)i) {
			other_log |= is_of_other_log(batch, message, rows_bool(rows, kept, 1));
			items[kept++] = items[i];
		} else {
			dedup_cache_add(writer->cache, message);
		}
	}
	*count = (size_t)kept;
	return other_log ? WRITER_OTHER_LOG : 0;
}

static int store_conflicts(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	const struct writing w = { writer, batch, QUERY_INSERT_CONFLICTS, fill_conflicts,
		note_conflicts, keep_as_reject };
	CLEANUP(freep) size_t *items = NULL;
	size_t count = 0;
	int r = select_rows(batch, ROW_DUPLICATE, &items, &count, err);

	writer->accepts = false;
	if (r == 0 && count > 0)
		r = keep_conflicts(writer, batch, items, &count, err);
	return r != 0 ? r : write_bisected(&w, items, count, err);
}

static int store_rejects(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	const struct writing w = { writer, batch, QUERY_INSERT_REJECTS, fill_rejects, note_rejects,
		keep_bare };
	CLEANUP(freep) size_t *items = calloc(batch->reject_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < batch->reject_count; i++)
		items[i] = i;
	return write_bisected(&w, items, batch->reject_count, err);
}

/* Queues BEGIN, the lease lock and the watermark updates. */
static int open_batch(struct batch_writer *writer, const struct batch *batch,
	struct opening *opening, struct err *err)
{
	int r = db_begin(writer->db, err);

	if (r != 0)
		return r;
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	r = db_queue(writer->db, QUERY_HOLD_LEASE, &writer->params, &opening->lease, err);
	if (r == 0)
		r = fill_updates(writer, batch, err);
	if (r == 0)
		r = db_queue(
			writer->db, QUERY_MOVE_WATERMARKS, &writer->params, &opening->moved, err);
	return r;
}

/* The updates are compare-and-set: a watermark that was changed by someone else is not updated, and
 * the number of updated rows is too low. The whole batch then fails. */
static int check_opening(const struct batch *batch, const struct opening *opening)
{
	if (rows_count(opening->lease) == 0)
		return WRITER_FENCED;
	if (rows_affected(opening->moved) != (int64_t)batch->update_count)
		return WRITER_MOVED;
	return 0;
}

/* Sends everything up to the INSERT. */
static int send_all(struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	struct opening *opening = &writer->opening;
	int r = open_batch(writer, batch, opening, err);

	if (r == 0 && writer->item_count > 0) {
		fill_messages(writer, batch, writer->items, writer->item_count, false);
		r = db_queue(writer->db, QUERY_INSERT_MESSAGES, &writer->params, &opening->inserted,
			err);
	}
	return r != 0 ? r : db_send(writer->db, err);
}

/* send_all() unless PostgreSQL does not accept a statement of this size: then write_bisected() sends parts of it. */
static int send_plain(struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	int r = send_all(writer, batch, err);

	writer->single = false;
	writer->unsendable = r < 0 && db_is_open(writer->db) && db_error_is_data(writer->db, err);
	return writer->unsendable ? 0 : r;
}

/* The outcome of a batch for the result of its COMMIT. The two enumerations overlap. */
static int commit_outcome(int r)
{
	return r == DB_COMMIT_UNKNOWN ? WRITER_UNKNOWN : r;
}

static int start_single(struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	int r = commit_outcome(single_row_send(writer, batch, err));

	if (r == 0 || !db_is_open(writer->db) || !db_error_is_data(writer->db, err))
		return r;
	return send_plain(writer, batch, err);
}

/* The transaction starts again, now with savepoints. */
static int store_bisected(const struct writing *w, struct err *err)
{
	CLEANUP(opening_fini) struct opening opening = { NULL, NULL, NULL };
	struct batch_writer *writer = w->writer;
	int r = open_batch(writer, w->batch, &opening, err);

	if (r == 0)
		r = db_flush(writer->db, err);
	if (r == 0)
		r = check_opening(w->batch, &opening);
	/* Makes deferred constraints and triggers of the user fail with the statement instead of
	 * the COMMIT, so that the refused row is known. */
	if (r == 0 && writer->isolating && writer->commit_refused)
		r = db_script(writer->db, "SET CONSTRAINTS ALL IMMEDIATE", err);
	writer->accepts = false;
	if (r == 0)
		r = held_rows_find(writer, w->batch, err);
	return r != 0 ? r : write_bisected(w, writer->items, writer->item_count, err);
}

/* True when the batch is stored, or has failed with `*r`. Otherwise nothing is stored, and the batch was sent again. */
static bool receive_single(
	struct batch_writer *writer, struct batch *batch, int *r, struct err *err)
{
	*r = commit_outcome(single_row_receive(writer, batch, err));
	if (writer->answered || *r > 0 || (*r < 0 && !db_error_may_be_row(err)))
		return true;
	opening_fini(&writer->opening);
	*r = send_plain(writer, batch, err);
	return *r != 0;
}

static int store_messages(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	const struct writing w = { writer, batch, QUERY_INSERT_MESSAGES, fill_messages,
		note_inserted, keep_as_reject };
	int r;

	if (writer->unsendable)
		return store_bisected(&w, err);
	r = db_receive(writer->db, err);
	if (r == 0)
		r = check_opening(batch, &writer->opening);
	if (r == 0 && writer->item_count > 0)
		r = note_inserted(
			&w, writer->items, writer->item_count, writer->opening.inserted, err);
	return is_refused(&w, r, err) ? store_bisected(&w, err) : r;
}

/* Rows that PostgreSQL refused become rows again. */
static void forget_results(struct batch *batch)
{
	batch_drop_refused(batch);
	for (size_t i = 0; i < batch->row_count; i++) {
		batch->rows[i].result = ROW_UNKNOWN;
		batch->rows[i].held = false;
	}
	for (size_t i = 0; i < batch->reject_count; i++)
		batch->rejects[i].kept = false;
}

/* As far as is known, nothing of the batch is stored. */
static void undo(struct batch_writer *writer, struct batch *batch)
{
	dedup_cache_forget(writer->cache);
	forget_results(batch);
}

/* Returns a fault when no row was accepted, because then the rows are not the cause. A duplicate
 * proves nothing, because nothing is written for it. */
static int blame_rows(const struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	if (writer->odd.fault == 0 || writer->proved)
		return 0;
	for (size_t i = 0; i < batch->row_count; i++) {
		enum insert_result result = batch->rows[i].result;

		if (result == ROW_CLAIMED || result == ROW_STORED || result == ROW_CONFLICT)
			return 0;
	}
	*err = writer->odd;
	return writer->odd.fault;
}

/* A fault that no retry can cure becomes an outcome. */
static int classified(const struct batch_writer *writer, int r, struct err *err)
{
	if (r >= 0 || !(writer->damaged || db_error_is_clash(writer->db, err)))
		return r;
	(void)err_prefix(err, "schema \"%s\" is damaged", db_schema(writer->db));
	(void)err_advise(err, "start inboxd again: it compares the sequences with the rows at its "
			      "start, and sets them or says how to");
	return WRITER_DAMAGED;
}

/* Everything except the COMMIT. */
static int write_all(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	int r = store_messages(writer, batch, err);

	if (r == 0)
		r = store_conflicts(writer, batch, err);
	if (r == 0)
		r = blame_rows(writer, batch, err);
	if (r == 0)
		r = store_rejects(writer, batch, err);
	drop_pipeline(writer);
	writer->commit_refused = writer->commit_refused && r != 0 && writer->isolating;
	if (r != 0) {
		db_rollback(writer->db);
		return classified(writer, r, err);
	}
	FAULT_POINT("after_insert_before_commit");
	announce_commit(writer);
	return 0;
}

/* The transaction holds a lock on the row of this instance. Fencing waits for that lock, or it came
 * first and the batch finds the row fenced; so no batch of a fenced instance is stored (rule R4). */
int batch_writer_start(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	bool savepoints = writer->isolate_next || held_rows_possible(writer, batch);
	int r;

	forget_results(batch);
	writer->batch_highest =
		writer->committing ? writer->committing_highest : writer->highest_seq;
	writer->floor = writer->batch_highest;
	writer->damaged = false;
	writer->isolating = writer->isolate_next;
	writer->isolate_next = false;
	writer->odd = (struct err)ERR_INIT;
	writer->proved = false;
	r = select_rows(batch, ROW_UNKNOWN, &writer->items, &writer->item_count, err);
	writer->unsendable = savepoints;
	writer->single = r == 0 && !savepoints && single_row_applies(writer, batch);
	if (writer->single)
		r = start_single(writer, batch, err);
	else if (r == 0 && !savepoints)
		r = send_plain(writer, batch, err);
	if (r == 0)
		return 0;
	drop_pipeline(writer);
	db_rollback(writer->db);
	return r;
}

void batch_writer_isolate(struct batch_writer *writer)
{
	writer->isolate_next = true;
}

bool batch_writer_poll(struct batch_writer *writer)
{
	return writer->unsendable || db_poll(writer->db);
}

int batch_writer_receive(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	struct err own = ERR_INIT;
	struct err *words = err == NULL ? &own : err;
	int r = 0;

	writer->answered = false;
	if (writer->single && receive_single(writer, batch, &r, words)) {
		drop_pipeline(writer);
		if (r != 0)
			db_rollback(writer->db);
		r = classified(writer, r, words);
	} else {
		r = write_all(writer, batch, words);
		if (r == 0)
			r = commit_outcome(db_commit_ahead(writer->db, words));
	}
	writer->committing = r == 0;
	writer->committing_highest = writer->batch_highest;
	if (r != 0)
		undo(writer, batch);
	return r;
}

/* After any result but 0 the connection is closed on purpose. A second batch may run on it, whose
 * watermark update starts where the one of this batch would have ended. */
int batch_writer_committed(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	int r = writer->answered ? 0 : db_committed(writer->db, err);

	writer->answered = false;
	FAULT_POINT("after_commit_before_offset");
	writer->committing = false;
	if (r == 0 && !FAULT_ERROR("error_after_store")) {
		writer->highest_seq = writer->committing_highest;
		return 0;
	}
	if (r == 0)
		r = DB_COMMIT_UNKNOWN;
	writer->commit_refused = r < 0;
	db_close(writer->db); /* this also aborts the batch behind it */
	undo(writer, batch);
	drop_pipeline(writer);
	return commit_outcome(r);
}

int batch_writer_finish(struct batch_writer *writer, struct batch *batch, struct err *err)
{
	int r = batch_writer_receive(writer, batch, err);

	return r == 0 ? batch_writer_committed(writer, batch, err) : r;
}
