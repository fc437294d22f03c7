/*
 * Storing a batch. A healthy one takes two flights: everything up to the rows of the INSERT, then
 * COMMIT. Only when PostgreSQL refuses a value the batch is begun again under savepoints and halved
 * until the row that cannot be stored is alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "queries.h"
#include "store/inbox_private.h"

DEFINE_CLEANUP(struct inbox *, inbox_free);

int inbox_new(struct inbox **out, const struct inbox_options *options, struct err *err)
{
	CLEANUP(inbox_freep) struct inbox *inbox = calloc(1, sizeof(*inbox));

	if (inbox == NULL)
		return err_memory(err);
	params_init(&inbox->params);
	inbox->db = options->db;
	inbox->instance = options->instance;
	inbox->ordering = options->ordering;
	inbox->committing = options->committing;
	inbox->arg = options->arg;
	inbox->highest_seq = options->first_low_seq - 1;
	*out = inbox;
	inbox = NULL;
	return 0;
}

static void opening_fini(struct opening *opening)
{
	rows_free(opening->lease);
	rows_free(opening->moved);
	rows_free(opening->inserted);
	*opening = (struct opening){ NULL, NULL, NULL };
}

static void forget_flight(struct inbox *inbox)
{
	opening_fini(&inbox->opening);
	free(inbox->items);
	inbox->items = NULL;
}

void inbox_free(struct inbox *inbox)
{
	if (inbox == NULL)
		return;
	params_fini(&inbox->params);
	forget_flight(inbox);
	free(inbox);
}

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

static bool is_data_fault(const struct inbox *inbox, int r, const struct err *err)
{
	return r < 0 && db_is_open(inbox->db) && db_error_is_data(err);
}

static int bisect(const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	struct err why = ERR_INIT;
	size_t half = count / 2;
	int r;

	if (count == 0)
		return 0;
	r = db_savepoint(w->inbox->db, err);
	if (r == 0)
		r = w->write(w, items, count, err);
	if (!is_data_fault(w->inbox, r, err))
		return r;
	why = *err;
	r = db_rollback_to_savepoint(w->inbox->db, err);
	if (r != 0)
		return r;
	if (count == 1)
		return w->give_up(w, items[0], &why, err);
	r = bisect(w, items, half, err);
	return r != 0 ? r : bisect(w, items + half, count - half, err);
}

/* Whether a message is the one that a row of an answer speaks of. */
typedef bool match_function(const struct message *message, const struct rows *rows, int row);

/* By id: coordinates may be in a batch twice, when a topic was created again. */
static bool has_id(const struct message *message, const struct rows *rows, int row)
{
	return strcmp(message->event_id, rows_text(rows, row, 1)) == 0 &&
	       strcmp(message->source, rows_text(rows, row, 2)) == 0;
}

static bool has_coordinates(const struct message *message, const struct rows *rows, int row)
{
	return message->offset == rows_int(rows, row, 2) &&
	       message->partition == rows_int(rows, row, 1) &&
	       strcmp(message->topic, rows_text(rows, row, 0)) == 0;
}

/* Also by id: see above. */
static bool has_both(const struct message *message, const struct rows *rows, int row)
{
	return has_coordinates(message, rows, row) &&
	       strcmp(message->event_id, rows_text(rows, row, 3)) == 0;
}

static const struct message *message_of(const struct writing *w, size_t item)
{
	return w->rejects ? w->batch->rejects[item].message : w->batch->rows[item].message;
}

/* What a statement answered about these items. */
struct answer {
	const struct rows *rows;
	const size_t *items;
	size_t count;
	match_function *match;
};

/* Position in `items` of what `row` speaks of, looked for from `from` on, round the end: rows come back
 * in the order they went, so it is nearly always the next one. `count` = none. */
static size_t match(const struct writing *w, const struct answer *answer, int row, size_t from)
{
	for (size_t i = 0; i < answer->count; i++) {
		size_t at = (from + i) % answer->count;

		if (answer->match(message_of(w, answer->items[at]), answer->rows, row))
			return at;
	}
	return answer->count;
}

static void note_new(struct inbox *inbox, struct batch_row *row, int64_t seq, bool claimed)
{
	row->fate = claimed ? ROW_CLAIMED : ROW_STORED;
	row->message->seq = seq;
	row->message->delivery_count = claimed ? 1 : 0;
	if (seq > inbox->batch_highest)
		inbox->batch_highest = seq;
}

static int note_inserted(const struct writing *w, const size_t *items, size_t count,
	const struct rows *rows, struct err *err)
{
	const struct answer answer = { rows, items, count, has_id };
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		w->batch->rows[items[i]].fate = ROW_DUPLICATE;
	for (int i = 0; i < rows_count(rows); i++) {
		at = match(w, &answer, i, at);
		if (at == count)
			return err_set(err, FAULT_INTERNAL,
				"PostgreSQL stored an event that was not in the batch: %s of %s",
				rows_text(rows, i, 1), rows_text(rows, i, 2));
		note_new(w->inbox, &w->batch->rows[items[at]], rows_int(rows, i, 0),
			rows_bool(rows, i, 3));
		at++;
	}
	return 0;
}

static int write_messages(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	fill_messages(w->inbox, w->batch, items, count);
	r = db_step(w->inbox->db, QUERY_INSERT_MESSAGES, &w->inbox->params, &rows, err);
	return r != 0 ? r : note_inserted(w, items, count, rows, err);
}

/* The record is kept among the rejects; its row stays in the batch for whoever counts. */
static int keep_as_reject(
	const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_row *row = &w->batch->rows[item];
	struct message *copy = NULL;
	char reason[sizeof(w->batch->rejects->reason)];
	int r = message_new(&copy, row->message, err);

	if (r != 0)
		return r;
	(void)snprintf(reason, sizeof(reason), "storage: %s %.400s", why->state, why->text);
	if (row->fate != ROW_DUPLICATE)
		row->fate = ROW_REJECTED;
	return batch_reject(w->batch, copy, reason, err);
}

static int write_conflicts(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct answer answer = { NULL, items, count, has_both };
	size_t at = 0;
	int r;

	fill_conflicts(w->inbox, w->batch, items, count);
	r = db_step(w->inbox->db, QUERY_INSERT_CONFLICTS, &w->inbox->params, &rows, err);
	answer.rows = rows;
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		at = match(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rows[items[at++]].fate = ROW_CONFLICT;
	}
	return r;
}

static int write_rejects_as(
	const struct writing *w, const size_t *items, size_t count, bool bare, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct answer answer = { NULL, items, count, has_coordinates };
	size_t at = 0;
	int r;

	fill_rejects(w->inbox, w->batch, items, count, bare);
	r = db_step(w->inbox->db, QUERY_INSERT_REJECTS, &w->inbox->params, &rows, err);
	answer.rows = rows;
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		at = match(w, &answer, i, at);
		if (at == count)
			break;
		w->batch->rejects[items[at++]].kept = true;
	}
	return r;
}

static int write_rejects(
	const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	return write_rejects_as(w, items, count, false, err);
}

/* Not even this can be stored whole: its coordinates and why must do. */
static int keep_bare(const struct writing *w, size_t item, const struct err *why, struct err *err)
{
	struct batch_reject *reject = &w->batch->rejects[item];
	size_t used = strlen(reject->reason);

	(void)snprintf(reject->reason + used, sizeof(reject->reason) - used, "; not kept whole: %s",
		why->text);
	return write_rejects_as(w, &item, 1, true, err);
}

/* The rows of this fate (true), or all rejects, as indexes; freed by the caller. */
static int select_rows(
	const struct batch *batch, enum row_fate fate, size_t **out, size_t *count, struct err *err)
{
	size_t *items = calloc(batch->row_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	*count = 0;
	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].fate == fate)
			items[(*count)++] = i;
	}
	*out = items;
	return 0;
}

static int store_conflicts(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, false, write_conflicts, keep_as_reject };
	CLEANUP(freep) size_t *items = NULL;
	size_t count = 0;
	int r = select_rows(batch, ROW_DUPLICATE, &items, &count, err);

	return r != 0 ? r : bisect(&w, items, count, err);
}

static int store_rejects(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, true, write_rejects, keep_bare };
	CLEANUP(freep) size_t *items = calloc(batch->reject_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	for (size_t i = 0; i < batch->reject_count; i++)
		items[i] = i;
	return bisect(&w, items, batch->reject_count, err);
}

/* BEGIN, lease and watermarks, queued. */
static int open_batch(
	struct inbox *inbox, const struct batch *batch, struct opening *opening, struct err *err)
{
	int r = db_begin(inbox->db, err);

	if (r != 0)
		return r;
	params_reset(&inbox->params);
	params_int(&inbox->params, inbox->instance);
	r = db_queue(inbox->db, QUERY_HOLD_LEASE, &inbox->params, &opening->lease, err);
	if (r == 0)
		r = fill_moves(inbox, batch, err);
	if (r == 0)
		r = db_queue(
			inbox->db, QUERY_MOVE_WATERMARKS, &inbox->params, &opening->moved, err);
	return r;
}

static int check_opening(const struct batch *batch, const struct opening *opening)
{
	if (rows_count(opening->lease) == 0)
		return INBOX_FENCED;
	if (rows_affected(opening->moved) != (int64_t)batch->move_count)
		return INBOX_MOVED;
	return 0;
}

/* Everything up to the rows of the INSERT. */
static int send_all(struct inbox *inbox, const struct batch *batch, struct err *err)
{
	struct opening *opening = &inbox->opening;
	int r = open_batch(inbox, batch, opening, err);

	if (r == 0 && inbox->item_count > 0) {
		fill_messages(inbox, batch, inbox->items, inbox->item_count);
		r = db_queue(
			inbox->db, QUERY_INSERT_MESSAGES, &inbox->params, &opening->inserted, err);
	}
	return r != 0 ? r : db_depart(inbox->db, err);
}

static int receive_all(const struct writing *w, struct err *err)
{
	struct inbox *inbox = w->inbox;
	int r = db_land(inbox->db, err);

	if (r == 0)
		r = check_opening(w->batch, &inbox->opening);
	if (r == 0 && inbox->item_count > 0)
		r = note_inserted(w, inbox->items, inbox->item_count, inbox->opening.inserted, err);
	return r;
}

static int store_bisected(const struct writing *w, struct err *err)
{
	CLEANUP(opening_fini) struct opening opening = { NULL, NULL, NULL };
	int r = open_batch(w->inbox, w->batch, &opening, err);

	if (r == 0)
		r = db_flush(w->inbox->db, err);
	if (r == 0)
		r = check_opening(w->batch, &opening);
	return r != 0 ? r : bisect(w, w->inbox->items, w->inbox->item_count, err);
}

static int store_messages(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, false, write_messages, keep_as_reject };
	int r;

	if (inbox->unsendable)
		return store_bisected(&w, err);
	r = receive_all(&w, err);
	return is_data_fault(inbox, r, err) ? store_bisected(&w, err) : r;
}

/* Rejected rows stay so: they are among the rejects already. */
static void forget_fates(struct batch *batch)
{
	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].fate != ROW_REJECTED)
			batch->rows[i].fate = ROW_UNKNOWN;
	}
	for (size_t i = 0; i < batch->reject_count; i++)
		batch->rejects[i].kept = false;
}

static int store_all(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r = store_messages(inbox, batch, err);

	if (r == 0)
		r = store_conflicts(inbox, batch, err);
	if (r == 0)
		r = store_rejects(inbox, batch, err);
	if (r != 0) {
		db_rollback(inbox->db);
		return r;
	}
	FAULT_POINT("after_insert_before_commit");
	if (inbox->committing != NULL)
		inbox->committing(inbox->arg);
	r = db_commit(inbox->db, err);
	FAULT_POINT("after_commit_before_offset");
	if (r == 0 && FAULT_ERROR("error_after_store"))
		return INBOX_UNKNOWN;
	return r == DB_COMMIT_UNKNOWN ? INBOX_UNKNOWN : r;
}

int inbox_start(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r;

	forget_fates(batch);
	inbox->batch_highest = inbox->highest_seq;
	r = select_rows(batch, ROW_UNKNOWN, &inbox->items, &inbox->item_count, err);
	if (r == 0)
		r = send_all(inbox, batch, err);
	inbox->unsendable = is_data_fault(inbox, r, err);
	if (r == 0 || inbox->unsendable)
		return 0;
	forget_flight(inbox);
	db_rollback(inbox->db);
	return r;
}

bool inbox_look(struct inbox *inbox)
{
	return inbox->unsendable || db_look(inbox->db);
}

int inbox_finish(struct inbox *inbox, struct batch *batch, struct err *err)
{
	struct err own = ERR_INIT;
	int r = store_all(inbox, batch, err == NULL ? &own : err);

	forget_flight(inbox);
	if (r == 0)
		inbox->highest_seq = inbox->batch_highest;
	else
		forget_fates(batch);
	return r;
}
