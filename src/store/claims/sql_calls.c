/*
 * Implements sql_calls.h. A batch is one transaction:
 *
 *	RESET ALL, BEGIN, the check of the function, up to PIPELINE_MOST calls   one pipeline
 *	more calls                                                              one pipeline each
 *	COMMIT                                                                  when all verdicts are known
 *
 * The COMMIT is not part of a pipeline: if the check refuses the function, everything is rolled back.
 *
 * What can happen to the transaction:
 * - The connection ends before the COMMIT is sent: the server rolls back.
 * - It ends before the answer of the COMMIT arrives: the rows are processed, or nothing has happened. The rows stay CALL_OPEN,
 *   and the settle that returns them finds the ones that are processed.
 * - A statement or the COMMIT fails: nothing has happened, and each row is tried alone.
 */
#include "store/claims/sql_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"

#define BUSY_WAIT_MS  1000 /* as in inbox.call_handler() */
#define PIPELINE_MOST 50   /* calls in one pipeline, which has a limit of 64 statements */

/* A transaction of some of the rows. */
struct call_batch {
	struct db *db;
	int32_t instance;
	const struct sql_handler *handler;
	struct call_row *rows;
	size_t count;
};

enum { COLUMN_STATUS, COLUMN_CODE, COLUMN_ERROR, COLUMN_DELAY };

/* The words of inbox.call_handler(). */
static const struct {
	const char *word;
	enum call_status status;
} words[] = {
	{ "done", CALL_DONE },
	{ "lost", CALL_LOST },
	{ "skipped", CALL_SKIPPED },
	{ "retry", CALL_RETRY },
	{ "timeout", CALL_TIMEOUT },
	{ "dead", CALL_DEAD },
	{ "snooze", CALL_SNOOZE },
};

void sql_calls_clear(struct call_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(rows[i].error);
		free(rows[i].error_code);
		rows[i].error = NULL;
		rows[i].error_code = NULL;
	}
}

static void set_error(struct call_row *row, const char *error, const char *code)
{
	sql_calls_clear(row, 1);
	row->error = error == NULL ? NULL : strdup(error);
	row->error_code = code == NULL ? NULL : strdup(code);
}

/* Forgets the verdicts of a transaction that was rolled back. */
static void reopen(struct call_batch *batch)
{
	sql_calls_clear(batch->rows, batch->count);
	for (size_t i = 0; i < batch->count; i++)
		batch->rows[i].status = CALL_OPEN;
}

static int read_verdict(const struct rows *found, struct call_row *row, struct err *err)
{
	const char *word = rows_count(found) == 1 ? rows_text(found, 0, COLUMN_STATUS) : NULL;

	for (size_t i = 0; word != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].word, word) != 0)
			continue;
		row->status = words[i].status;
		row->delay_ms = rows_is_null(found, 0, COLUMN_DELAY)
					? -1
					: rows_int(found, 0, COLUMN_DELAY);
		set_error(row, rows_text(found, 0, COLUMN_ERROR), rows_text(found, 0, COLUMN_CODE));
		return 0;
	}
	return err_set(err, FAULT_DATABASE, "inbox.call_handler() returned an unknown status");
}

static void add_handler(struct params *params, const struct sql_handler *handler)
{
	params_text(params, handler->call);
	params_text(params, handler->role);
}

static int queue_check(struct call_batch *batch, struct rows **found, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_handler(&params, batch->handler);
	return db_queue(batch->db, QUERY_CHECK_SQL_HANDLER, &params, found, err);
}

static int queue_call(struct call_batch *batch, size_t at, struct rows **found, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const struct call_row *row = &batch->rows[at];

	params_int(&params, batch->instance);
	params_bigint(&params, row->seq);
	params_int(&params, row->delivery_count);
	if (row->follows)
		params_bigint(&params, row[-1].seq);
	else
		params_text(&params, NULL);
	params_text(&params, batch->handler->name);
	add_handler(&params, batch->handler);
	params_bigint(&params, batch->handler->timeout_ms);
	return db_queue(batch->db, QUERY_CALL_HANDLER, &params, found, err);
}

/* Sends the calls of the rows from `first` on, as many as one pipeline takes, and reads their verdicts. */
static int run_calls(struct call_batch *batch, size_t first, struct err *err)
{
	size_t left = batch->count - first;
	size_t count = left < PIPELINE_MOST ? left : PIPELINE_MOST;
	struct rows *found[PIPELINE_MOST] = { NULL };
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = queue_call(batch, first + i, &found[i], err);
	if (r == 0)
		r = db_flush(batch->db, err);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = read_verdict(found[i], &batch->rows[first + i], err);
		rows_free(found[i]);
	}
	return r;
}

static int refusal_of(const struct rows *found, const struct sql_handler *handler, struct err *err)
{
	if (rows_count(found) != 1 || rows_is_null(found, 0, 0))
		return 0;
	(void)err_set(
		err, FAULT_CHECK, "handlers.%s.call: %s", handler->name, rows_text(found, 0, 0));
	if (!rows_is_null(found, 0, 1))
		(void)err_advise(err, "%s", rows_text(found, 0, 1));
	return SQL_CALLS_REFUSED;
}

/* True when the server ended the transaction with an error and the connection works. */
static bool is_rolled_back(int r, const struct err *err)
{
	enum pg_error_class class = db_error_kind(err);

	return r == FAULT_DATABASE && class != PG_ERROR_LOST && class != PG_ERROR_READ_ONLY &&
	       class != PG_ERROR_RESOURCES;
}

/* What the functions of the user raise is a verdict. So an error of class 42 means that the functions of the inbox cannot be
 * called. */
static int refusal_of_error(const struct db *db, int r, struct err *err)
{
	if (r != FAULT_DATABASE || !db_is_open(db) || db_error_kind(err) != PG_ERROR_REFUSED)
		return r;
	(void)err_advise(err, "run `inboxd migrate --roles` as the owner of the schema");
	return SQL_CALLS_REFUSED;
}

/* The check and all calls, without the COMMIT. */
static int run_functions(struct call_batch *batch, struct err *err)
{
	struct rows *problem = NULL;
	int r = db_begin(batch->db, err);

	if (r == 0)
		r = queue_check(batch, &problem, err);
	for (size_t first = 0; first < batch->count && r == 0; first += PIPELINE_MOST) {
		r = run_calls(batch, first, err);
		if (r == 0 && first == 0)
			r = refusal_of(problem, batch->handler, err);
	}
	rows_free(problem);
	return refusal_of_error(batch->db, r, err);
}

/* True if the server has ended all its sessions, so that no call of this one can be the cause. 57P02: another process of
 * the server has crashed. 57P01: the server shuts down and accepts no connection, or somebody has ended this session only,
 * which the function itself can do. */
static bool server_ended(struct db *db, const struct err *err)
{
	struct err ignored = ERR_INIT;

	/* The analyzer takes `err` for NULL, because functions that report an error accept that. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
	if (strcmp(err->state, "57P02") == 0)
		return true;
	return strcmp(err->state, "57P01") == 0 && db_open(db, &ignored) != 0;
}

/* One transaction. Unless the result is 0, the rows are CALL_OPEN. */
static int run_transaction(struct call_batch *batch, struct err *err)
{
	int r = run_functions(batch, err);

	FAULT_POINT("after_call_before_commit");
	if (r == 0)
		r = db_commit(batch->db, err) == 0 ? 0 : FAULT_DATABASE;
	else
		db_rollback(batch->db);
	FAULT_POINT("after_call_commit");
	if (r != 0)
		reopen(batch);
	if (r < 0 && !db_is_open(batch->db) && !server_ended(batch->db, err))
		return SQL_CALLS_LOST;
	return r;
}

/* One row in a transaction of its own. If it is rolled back, that is the verdict of the row. */
static int run_alone(struct call_batch *batch, size_t at, struct err *err)
{
	struct call_row *row = &batch->rows[at];
	struct call_batch alone = *batch;
	int r;

	if (row->follows && row[-1].status != CALL_DONE) {
		row->status = CALL_SKIPPED;
		return 0;
	}
	alone.rows = row;
	alone.count = 1;
	r = run_transaction(&alone, err);
	if (!is_rolled_back(r, err))
		return r;
	row->status = CALL_RETRY;
	if (db_error_kind(err) == PG_ERROR_SLOW)
		row->status = CALL_TIMEOUT;
	else if (db_error_kind(err) == PG_ERROR_BUSY)
		row->status = CALL_SNOOZE; /* the message did not cause it */
	row->delay_ms = BUSY_WAIT_MS;
	set_error(row, err->text, row->status == CALL_TIMEOUT ? "TIMEOUT" : err->state);
	return 0;
}

int sql_calls_run(struct db *db, const struct sql_calls *calls, struct err *err)
{
	struct call_batch batch = { db, calls->instance, calls->handler, calls->rows,
		calls->count };
	int64_t until_ms;
	int r;

	FAULT_POINT("before_call");
	r = run_transaction(&batch, err);
	if (!is_rolled_back(r, err))
		return r;
	r = 0;
	until_ms = clock_now_ms() + calls->handler->timeout_ms;
	for (size_t i = 0; i < calls->count && r == 0 && clock_now_ms() < until_ms; i++)
		r = run_alone(&batch, i, err);
	return r;
}

int sql_calls_check(struct db *db, const struct sql_handler *handler, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct rows *found = NULL;
	int r;

	add_handler(&params, handler);
	r = db_run(db, QUERY_CHECK_SQL_HANDLER, &params, &found, err);
	if (r == 0)
		r = refusal_of(found, handler, err);
	rows_free(found);
	return refusal_of_error(db, r, err);
}
