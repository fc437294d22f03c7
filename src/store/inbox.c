/*
 * Stores a batch. The normal case takes two pipelines (ADR 10): everything up to the rows of the
 * INSERT, then COMMIT. Only if PostgreSQL refuses a value, the batch starts again under savepoints
 * and is halved until the row that cannot be stored is alone.
 *
 * Crash window: between COMMIT and its answer. If the answer is lost, the result is INBOX_UNKNOWN,
 * and inbox_resync() finds out what happened.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "queries.h"
#include "store/inbox_private.h"

DEFINE_CLEANUP(struct inbox *, inbox_free);

int inbox_new(struct inbox **out, const struct inbox_options *options, struct err *err)
{
	CLEANUP(inbox_freep) struct inbox *inbox = calloc(1, sizeof(*inbox));
	int r;

	if (inbox == NULL)
		return err_memory(err);
	params_init(&inbox->params);
	inbox->db = options->db;
	inbox->instance = options->instance;
	inbox->ordering = options->ordering;
	inbox->about_to_commit = options->committing;
	inbox->arg = options->arg;
	inbox->highest_seq = options->first_low_seq - 1;
	r = dedup_cache_new(&inbox->cache, err);
	if (r != 0)
		return r;
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

static void drop_pipeline(struct inbox *inbox)
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
	drop_pipeline(inbox);
	dedup_cache_free(inbox->cache);
	free(inbox);
}

int inbox_pin_server_memory(struct inbox *inbox, struct err *err)
{
	return db_run(inbox->db, QUERY_PIN_SERVER_MEMORY, NULL, NULL, err);
}

/* Matches by id. Coordinates can occur twice in a batch, after a topic recreation. */
static bool has_id(const struct message *message, const struct rows *rows, int row)
{
	return strcmp(message->event_id, rows_text(rows, row, 1)) == 0 &&
	       strcmp(message->source, rows_text(rows, row, 2)) == 0;
}

static void note_new(struct inbox *inbox, struct batch_row *row, int64_t seq, bool claimed)
{
	row->result = claimed ? ROW_CLAIMED : ROW_STORED;
	row->message->seq = seq;
	row->message->delivery_count = claimed ? 1 : 0;
	if (seq > inbox->batch_highest)
		inbox->batch_highest = seq;
	dedup_cache_add(inbox->cache, row->message);
}

/* The sequence went backwards while this instance was running, so another server with older data
 * has replaced the one that assigned the earlier numbers. A row with a lower number would be below
 * low_seq, where no rescue searches (rule R3). */
static int report_lower_seq(const struct inbox *inbox, int64_t seq, struct err *err)
{
	return err_set(err, FAULT_DATABASE,
		"a new row of inbox_messages got number %" PRId64 ", which is not above %" PRId64,
		seq, inbox->floor);
}

static int note_inserted(const struct writing *w, const size_t *items, size_t count,
	const struct rows *rows, struct err *err)
{
	const struct answer answer = { rows, items, count, has_id };
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		w->batch->rows[items[i]].result = ROW_DUPLICATE;
	for (int i = 0; i < rows_count(rows); i++) {
		at = writing_match(w, &answer, i, at);
		if (at == count)
			return err_set(err, FAULT_INTERNAL,
				"PostgreSQL stored an event that was not in the batch: %s of %s",
				rows_text(rows, i, 1), rows_text(rows, i, 2));
		if (rows_int(rows, i, 0) <= w->inbox->floor) {
			w->inbox->damaged = true;
			return report_lower_seq(w->inbox, rows_int(rows, i, 0), err);
		}
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

/* Queues BEGIN, the lease lock and the watermark updates. */
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
		r = fill_updates(inbox, batch, err);
	if (r == 0)
		r = db_queue(
			inbox->db, QUERY_MOVE_WATERMARKS, &inbox->params, &opening->moved, err);
	return r;
}

/* The updates are compare-and-set: a watermark that was changed by someone else is not updated, and
 * the number of updated rows is too low. The whole batch then fails. */
static int check_opening(const struct batch *batch, const struct opening *opening)
{
	if (rows_count(opening->lease) == 0)
		return INBOX_FENCED;
	if (rows_affected(opening->moved) != (int64_t)batch->update_count)
		return INBOX_MOVED;
	return 0;
}

/* Sends everything up to the INSERT. */
static int send_all(struct inbox *inbox, const struct batch *batch, struct err *err)
{
	struct opening *opening = &inbox->opening;
	int r = open_batch(inbox, batch, opening, err);

	if (r == 0 && inbox->item_count > 0) {
		fill_messages(inbox, batch, inbox->items, inbox->item_count);
		r = db_queue(
			inbox->db, QUERY_INSERT_MESSAGES, &inbox->params, &opening->inserted, err);
	}
	return r != 0 ? r : db_send(inbox->db, err);
}

static int receive_all(const struct writing *w, struct err *err)
{
	struct inbox *inbox = w->inbox;
	int r = db_receive(inbox->db, err);

	if (r == 0)
		r = check_opening(w->batch, &inbox->opening);
	if (r == 0 && inbox->item_count > 0)
		r = note_inserted(w, inbox->items, inbox->item_count, inbox->opening.inserted, err);
	return r;
}

/* Makes deferred constraints and triggers of the user fail with the statement instead of the
 * COMMIT, so that the refused row is known. */
static int check_at_once(const struct inbox *inbox, struct err *err)
{
	if (!inbox->isolating || !inbox->commit_refused)
		return 0;
	return db_script(inbox->db, "SET CONSTRAINTS ALL IMMEDIATE", err);
}

static int store_bisected(const struct writing *w, struct err *err)
{
	CLEANUP(opening_fini) struct opening opening = { NULL, NULL, NULL };
	int r = open_batch(w->inbox, w->batch, &opening, err);

	if (r == 0)
		r = db_flush(w->inbox->db, err);
	if (r == 0)
		r = check_opening(w->batch, &opening);
	if (r == 0)
		r = check_at_once(w->inbox, err);
	return r != 0 ? r : writing_bisect(w, w->inbox->items, w->inbox->item_count, err);
}

static int store_messages(struct inbox *inbox, struct batch *batch, struct err *err)
{
	const struct writing w = { inbox, batch, false, write_messages, inbox_keep_as_reject };
	int r;

	if (inbox->unsendable)
		return store_bisected(&w, err);
	r = receive_all(&w, err);
	return writing_is_refused(&w, r, err) ? store_bisected(&w, err) : r;
}

/* Rows that PostgreSQL refused become rows again. */
static void forget_results(struct batch *batch)
{
	batch_drop_refused(batch);
	for (size_t i = 0; i < batch->row_count; i++)
		batch->rows[i].result = ROW_UNKNOWN;
	for (size_t i = 0; i < batch->reject_count; i++)
		batch->rejects[i].kept = false;
}

/* As far as is known, nothing of the batch is stored. */
static void undo(struct inbox *inbox, struct batch *batch)
{
	dedup_cache_forget(inbox->cache);
	forget_results(batch);
}

static bool any_went_through(const struct batch *batch)
{
	for (size_t i = 0; i < batch->row_count; i++) {
		enum insert_result result = batch->rows[i].result;

		if (result == ROW_CLAIMED || result == ROW_STORED || result == ROW_CONFLICT)
			return true;
	}
	return false;
}

/* Returns a fault when no row was accepted, because then the rows are not the cause. A duplicate
 * proves nothing, because nothing is written for it. */
static int blame_rows(const struct inbox *inbox, const struct batch *batch, struct err *err)
{
	if (inbox->odd.fault == 0 || any_went_through(batch))
		return 0;
	*err = inbox->odd;
	return inbox->odd.fault;
}

/* A fault that no retry can cure becomes an outcome. */
static int classified(const struct inbox *inbox, int r, struct err *err)
{
	if (r >= 0 || !(inbox->damaged || db_error_is_clash(inbox->db, err)))
		return r;
	(void)err_prefix(err, "schema \"%s\" is damaged", db_schema(inbox->db));
	(void)err_advise(err, "start inboxd again: it compares the sequences with the rows at its "
			      "start, and sets them or says how to");
	return INBOX_DAMAGED;
}

/* Everything except the COMMIT. */
static int write_all(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r = store_messages(inbox, batch, err);

	if (r == 0)
		r = inbox_store_conflicts(inbox, batch, err);
	if (r == 0)
		r = blame_rows(inbox, batch, err);
	if (r == 0)
		r = inbox_store_rejects(inbox, batch, err);
	drop_pipeline(inbox);
	inbox->commit_refused = inbox->commit_refused && r != 0 && inbox->isolating;
	if (r != 0) {
		db_rollback(inbox->db);
		return classified(inbox, r, err);
	}
	FAULT_POINT("after_insert_before_commit");
	if (inbox->about_to_commit != NULL)
		inbox->about_to_commit(inbox->arg);
	return 0;
}

/* The transaction holds a lock on the row of this instance. Fencing waits for that lock, or it came
 * first and the batch finds the row fenced; so no batch of a fenced instance is stored (rule R4). */
int inbox_start(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r;

	forget_results(batch);
	inbox->batch_highest = inbox->committing ? inbox->committing_highest : inbox->highest_seq;
	inbox->floor = inbox->batch_highest;
	inbox->damaged = false;
	inbox->isolating = inbox->isolate_next;
	inbox->isolate_next = false;
	inbox->odd = (struct err)ERR_INIT;
	r = inbox_select_rows(batch, ROW_UNKNOWN, &inbox->items, &inbox->item_count, err);
	if (r == 0 && !inbox->isolating)
		r = send_all(inbox, batch, err);
	inbox->unsendable =
		inbox->isolating || (r < 0 && db_is_open(inbox->db) && db_error_is_data(err));
	if (r == 0 || inbox->unsendable)
		return 0;
	drop_pipeline(inbox);
	db_rollback(inbox->db);
	return r;
}

void inbox_isolate(struct inbox *inbox)
{
	inbox->isolate_next = true;
}

bool inbox_poll(struct inbox *inbox)
{
	return inbox->unsendable || db_poll(inbox->db);
}

/* The result of a batch for the result of its COMMIT. */
static int committed_with(int r)
{
	return r == DB_COMMIT_UNKNOWN ? INBOX_UNKNOWN : r;
}

int inbox_receive(struct inbox *inbox, struct batch *batch, struct err *err)
{
	struct err own = ERR_INIT;
	int r = write_all(inbox, batch, err == NULL ? &own : err);

	if (r == 0)
		r = committed_with(db_commit_ahead(inbox->db, err));
	inbox->committing = r == 0;
	inbox->committing_highest = inbox->batch_highest;
	if (r != 0)
		undo(inbox, batch);
	return r;
}

/* After any result but 0 the connection is closed on purpose. A second batch may run on it, whose
 * watermark update starts where the one of this batch would have ended. */
int inbox_committed(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r = db_committed(inbox->db, err);

	FAULT_POINT("after_commit_before_offset");
	inbox->committing = false;
	if (r == 0 && !FAULT_ERROR("error_after_store")) {
		inbox->highest_seq = inbox->committing_highest;
		return 0;
	}
	if (r == 0)
		r = DB_COMMIT_UNKNOWN;
	inbox->commit_refused = r < 0;
	db_close(inbox->db); /* this also aborts the batch behind it */
	undo(inbox, batch);
	drop_pipeline(inbox);
	return committed_with(r);
}

int inbox_finish(struct inbox *inbox, struct batch *batch, struct err *err)
{
	int r = inbox_receive(inbox, batch, err);

	return r == 0 ? inbox_committed(inbox, batch, err) : r;
}
