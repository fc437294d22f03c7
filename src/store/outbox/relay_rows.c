/*
 * Implements relay_rows.h.
 */
#include "store/outbox/relay_rows.h"

#include "queries.h"

#define KEEP_POSITION (-1)

/* --- The election ------------------------------------------------------------------------------ */

enum {
	ELECTED_FLOOR,
	ELECTED_LAST,
	ELECTED_TRANSACTION,
	ELECTED_TIP,
	ELECTED_FIRST_HOLE,
	ELECTED_LAST_HOLE
};

static void add_holes(struct params *params, const struct holes *holes)
{
	int first = params_array(params, ARRAY_BIGINT);
	int last = params_array(params, ARRAY_BIGINT);

	for (size_t i = 0; holes != NULL && i < holes->count; i++) {
		array_bigint(params, first, holes->items[i].first);
		array_bigint(params, last, holes->items[i].last);
	}
}

static int elect(struct db *db, const struct params *params, struct rows **rows,
	struct relay_election *out, struct err *err)
{
	int r = db_run(db, QUERY_RELAY_ELECT, params, rows, err);

	if (r != 0)
		return r;
	if (rows_count(*rows) == 0)
		return RELAY_ANOTHERS;
	*out = (struct relay_election){
		.floor = rows_int(*rows, 0, ELECTED_FLOOR),
		.last_number = rows_int(*rows, 0, ELECTED_LAST),
		.transaction = rows_int(*rows, 0, ELECTED_TRANSACTION),
		.tip = rows_int(*rows, 0, ELECTED_TIP),
	};
	return 0;
}

int relay_elect(struct db *db, int32_t instance, struct relay_election *out, struct holes *holes,
	struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, instance);
	params_bigint(&params, KEEP_POSITION);
	params_bigint(&params, 0);
	add_holes(&params, NULL);
	r = elect(db, &params, &rows, out, err);
	for (int row = 0; r == 0 && row < rows_count(rows); row++) {
		if (!rows_is_null(rows, row, ELECTED_FIRST_HOLE) &&
			holes_add(holes, rows_int(rows, row, ELECTED_FIRST_HOLE),
				rows_int(rows, row, ELECTED_LAST_HOLE)) < 0)
			r = err_memory(err);
	}
	return r;
}

int relay_renew(struct db *db, int32_t instance, struct relay_position position,
	struct relay_election *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;

	params_int(&params, instance);
	params_bigint(&params, holes_lowest(position.holes, position.tip + 1) - 1);
	params_bigint(&params, position.tip);
	add_holes(&params, position.holes);
	return elect(db, &params, &rows, out, err);
}

int relay_resign(struct db *db, int32_t instance, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, instance);
	return db_run(db, QUERY_RELAY_RESIGN, &params, NULL, err);
}

/* --- Reading ----------------------------------------------------------------------------------- */

/* One round trip: the settings that pin the plan, and the statement. */
static int read_pinned(struct db *db, enum query query, const struct params *params,
	struct rows **out, struct err *err)
{
	int r = db_begin(db, err);

	if (r == 0)
		r = db_queue(db, QUERY_RELAY_SETTINGS, NULL, NULL, err);
	if (r == 0)
		r = db_queue(db, query, params, out, err);
	if (r == 0)
		r = db_commit(db, err);
	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

static void add_page(struct params *params, const struct relay_page *page)
{
	params_int(params, page->rows);
	params_bigint(params, page->bytes);
}

static void add_seqs(struct params *params, struct relay_seqs seqs)
{
	int array = params_array(params, ARRAY_BIGINT);

	for (size_t i = 0; i < seqs.count; i++)
		array_bigint(params, array, seqs.items[i]);
}

int relay_read(struct db *db, const struct relay_page *page, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_page(&params, page);
	params_bigint(&params, page->after);
	return read_pinned(db, QUERY_RELAY_READ, &params, out, err);
}

static bool is_cut(const struct rows *rows, const struct relay_page *page)
{
	int64_t most = 0;

	for (int row = 0; row < rows_count(rows); row++) {
		if (rows_int(rows, row, RELAY_BYTES) > most)
			most = rows_int(rows, row, RELAY_BYTES);
	}
	return rows_count(rows) >= page->rows || most >= page->bytes;
}

int relay_ask(struct db *db, const struct relay_page *page, struct relay_ask *ask,
	struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	add_page(&params, page);
	add_holes(&params, ask->holes);
	r = read_pinned(db, QUERY_RELAY_ASK, &params, out, err);
	if (r != 0)
		return r;
	ask->xmin = rows_int(*out, 0, RELAY_XMIN);
	ask->cut = !rows_is_null(*out, 0, RELAY_SEQ) && is_cut(*out, page);
	return 0;
}

int relay_low(struct db *db, const struct relay_page *page, int64_t last, struct rows **out,
	struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_page(&params, page);
	params_bigint(&params, page->after);
	params_bigint(&params, last);
	return read_pinned(db, QUERY_RELAY_LOW, &params, out, err);
}

int relay_due(struct db *db, const struct relay_page *page, struct relay_seqs without,
	struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_page(&params, page);
	add_seqs(&params, without);
	return read_pinned(db, QUERY_RELAY_DUE, &params, out, err);
}

int relay_fetch(struct db *db, const struct relay_page *page, struct relay_seqs seqs,
	struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_page(&params, page);
	add_seqs(&params, seqs);
	return read_pinned(db, QUERY_RELAY_FETCH, &params, out, err);
}

int relay_heads(
	struct db *db, int max_rows, struct relay_head after, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, max_rows);
	params_bigint(&params, after.due_us);
	params_bigint(&params, after.seq);
	return read_pinned(db, QUERY_RELAY_HEADS, &params, out, err);
}

int relay_parked(struct db *db, int max_rows, int64_t after, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, max_rows);
	params_bigint(&params, after);
	return read_pinned(db, QUERY_RELAY_PARKED, &params, out, err);
}

int relay_gone(struct db *db, struct relay_seqs seqs, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	add_seqs(&params, seqs);
	return db_run(db, QUERY_RELAY_GONE, &params, out, err);
}

int relay_backlog(struct db *db, int64_t cap, struct relay_backlog *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_bigint(&params, cap);
	r = db_run(db, QUERY_RELAY_BACKLOG, &params, &rows, err);
	if (r != 0)
		return r;
	*out = (struct relay_backlog){
		.waiting = rows_int(rows, 0, 0),
		.parked = rows_int(rows, 0, 1),
		.dead = rows_int(rows, 0, 2),
		.oldest_ms = rows_int(rows, 0, 3),
	};
	return 0;
}

/* --- Recording --------------------------------------------------------------------------------- */

static bool is_of(const struct relay_settle *settle, const struct relay_result *result)
{
	return (result->outcome == RELAY_PUBLISHED) == settle->published;
}

/* How many were added. */
static int add_published(struct params *params, const struct relay_settle *settle)
{
	int seqs = params_array(params, ARRAY_BIGINT);
	int partitions = settle->keep ? params_array(params, ARRAY_INT) : 0;
	int offsets = settle->keep ? params_array(params, ARRAY_BIGINT) : 0;
	int count = 0;

	for (size_t i = 0; i < settle->count; i++) {
		const struct relay_result *result = &settle->results[i];

		if (!is_of(settle, result))
			continue;
		array_bigint(params, seqs, result->seq);
		if (settle->keep) {
			array_int(params, partitions, result->partition);
			array_bigint(params, offsets, result->offset);
		}
		count++;
	}
	params_int(params, settle->instance);
	return count;
}

static int add_deferred(struct params *params, const struct relay_settle *settle)
{
	int seqs = params_array(params, ARRAY_BIGINT);
	int outcomes = params_array(params, ARRAY_SMALLINT);
	int delays = params_array(params, ARRAY_BIGINT);
	int retries = params_array(params, ARRAY_INT);
	int errors = params_array(params, ARRAY_TEXT);
	int codes = params_array(params, ARRAY_TEXT);
	int count = 0;

	for (size_t i = 0; i < settle->count; i++) {
		const struct relay_result *result = &settle->results[i];

		if (!is_of(settle, result))
			continue;
		array_bigint(params, seqs, result->seq);
		array_smallint(params, outcomes, (int16_t)result->outcome);
		array_bigint(params, delays, result->delay_ms);
		array_int(params, retries, result->retries);
		array_text(params, errors, result->error);
		array_text(params, codes, result->code);
		count++;
	}
	params_int(params, settle->instance);
	return count;
}

static void mark_all(const struct relay_settle *settle, bool refused)
{
	for (size_t i = 0; i < settle->count; i++) {
		if (!is_of(settle, &settle->results[i]))
			continue;
		settle->results[i].left_out = refused;
		settle->results[i].refused = refused;
	}
}

void relay_leave_out(const struct relay_settle *settle)
{
	mark_all(settle, true);
}

/* Both lists are in the order of seq, or nearly. */
static void mark_left_out(const struct relay_settle *settle, const struct rows *rows)
{
	size_t at = 0;

	mark_all(settle, false);
	for (int row = 0; row < rows_count(rows); row++) {
		for (size_t tries = 0; tries < settle->count; tries++, at++) {
			struct relay_result *result = &settle->results[at % settle->count];

			if (result->seq == rows_int(rows, row, 0)) {
				result->left_out = true;
				break;
			}
		}
	}
}

int relay_settle(struct db *db, struct relay_settle *settle, struct err *err)
{
	CLEANUP(params_fini) struct params instance = PARAMS_INIT;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *held = NULL;
	CLEANUP(rows_freep) struct rows *left_out = NULL;
	int count =
		settle->published ? add_published(&params, settle) : add_deferred(&params, settle);
	enum query query = settle->keep ? QUERY_RELAY_KEEP : QUERY_RELAY_DELETE;
	int r;

	settle->transaction = 0;
	if (count == 0)
		return 0;
	params_int(&instance, settle->instance);
	r = db_begin(db, err);
	if (r == 0)
		r = db_queue(db, QUERY_RELAY_HOLD, &instance, &held, err);
	if (r == 0)
		r = db_queue(
			db, settle->published ? query : QUERY_RELAY_DEFER, &params, &left_out, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	if (rows_count(held) == 0)
		return RELAY_ANOTHERS;
	settle->transaction = rows_int(held, 0, 0);
	mark_left_out(settle, left_out);
	return 0;
}
