/*
 * Implements other_claims.h. For each other instance there are two ranges: rows that were born
 * claimed, by seq, and claims from the table, by claim number. Stragglers, which may lie below
 * these ranges, are read first.
 */
#include "store/claims/other_claims.h"

#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "queries.h"
#include "store/claims/claim_params.h"

#define BORN_WINDOW 20000 /* seqs examined by one statement */
#define SLOW_WINDOW 20    /* claims examined by one statement */
#define MOST        10000

/* The result columns of list_others. */
enum {
	COLUMN_ID,
	COLUMN_FIRST_SEQ,
	COLUMN_LAST_SEQ,
	COLUMN_FIRST_CLAIM,
	COLUMN_LAST_CLAIM,
};

DEFINE_CLEANUP(struct other_claims_search *, other_claims_search_free);

/* The state of a search: the present range (one kind of claim of one instance) and the start of the
 * next window. The list of other instances is from the moment after the partitions were taken; a
 * later instance cannot claim rows of them. */
struct other_claims_search {
	struct db *db;
	struct other_claims_request request;
	struct rows *others;
	int span;
	int64_t at;
	unsigned halvings; /* of the windows, after faults */
	struct other_claims found;
};

struct seq_span {
	enum query query;
	int32_t other;
	int64_t first;
	int64_t last;
	int64_t width;
};

static struct seq_span span_of(const struct other_claims_search *search)
{
	bool born = search->span % 2 == 0;
	int row = search->span / 2;
	int64_t width = (born ? BORN_WINDOW : SLOW_WINDOW) >> search->halvings;

	return (struct seq_span){
		.query = born ? QUERY_FOREIGN_BORN : QUERY_FOREIGN_SLOW,
		.other = (int32_t)rows_int(search->others, row, COLUMN_ID),
		.first =
			rows_int(search->others, row, born ? COLUMN_FIRST_SEQ : COLUMN_FIRST_CLAIM),
		.last = rows_int(search->others, row, born ? COLUMN_LAST_SEQ : COLUMN_LAST_CLAIM),
		.width = width > 0 ? width : 1,
	};
}

static bool is_over(struct other_claims_search *search)
{
	for (; search->span < 2 * rows_count(search->others); search->span++) {
		const struct seq_span span = span_of(search);

		if (search->at < span.first)
			search->at = span.first;
		if (search->at <= span.last)
			return false;
		search->at = 0;
	}
	return true;
}

/* Of a stream that is one lane, rows without a key count, too. Of one without an order, no row does. */
static void add_request(struct params *params, const struct other_claims_search *search)
{
	const struct other_claims_request *request = &search->request;
	int keyless;

	add_streams(params, request->refs, request->count);
	keyless = params_array(params, ARRAY_BOOL);
	for (size_t i = 0; i < request->count; i++) {
		if (request->refs[i].ordering == ORDERING_NONE)
			array_null(params, keyless);
		else
			array_bool(
				params, keyless, request->refs[i].ordering == ORDERING_PARTITION);
	}
	params_int(params, (int)(MOST - search->found.count + 1));
}

static void take_rows(struct other_claims_search *search, const struct rows *rows)
{
	for (int i = 0; i < rows_count(rows) && search->found.count <= MOST; i++) {
		size_t ref = (size_t)rows_int(rows, i, 0) - 1;
		bool keyed = search->request.refs[ref].ordering == ORDERING_KEY;

		search->found.items[search->found.count++] = (struct other_claim){
			.ref = ref,
			.seq = rows_int(rows, i, 1),
			.offset = rows_int(rows, i, 2),
			.key_hash = keyed ? hash_of(rows_bytes(rows, i, 3)) : 0,
		};
	}
}

/* Reads one window per statement, so that a large range cannot exceed statement_timeout. */
static int read_window(struct other_claims_search *search, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const struct seq_span span = span_of(search);
	int r;

	params_int(&params, span.other);
	params_bigint(&params, search->at);
	params_bigint(&params, span.width);
	add_request(&params, search);
	FAULT_POINT("before_foreign_window");
	r = db_run(search->db, span.query, &params, &rows, err);
	if (r != 0) {
		search->halvings += span.width > 1;
		return r;
	}
	take_rows(search, rows);
	search->at += span.width;
	return 0;
}

static int read_stragglers(struct other_claims_search *search, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, search->request.instance);
	add_request(&params, search);
	r = db_run(search->db, QUERY_FOREIGN_STRAGGLERS, &params, &rows, err);
	if (r == 0)
		take_rows(search, rows);
	return r;
}

/* Reads the bounds before the stragglers. Rows between these bounds and newer ones are in the
 * ranges; a row below the bounds that is still held is also among the newer stragglers. So no claim
 * is missed while bounds rise. */
static int begin_search(struct other_claims_search *search, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	params_int(&params, search->request.instance);
	r = db_run(search->db, QUERY_LIST_OTHERS, &params, &search->others, err);
	if (r != 0 || rows_count(search->others) == 0)
		return r;
	search->found.items = calloc(MOST + 1, sizeof(*search->found.items));
	if (search->found.items == NULL)
		return err_memory(err);
	return read_stragglers(search, err);
}

static bool has_order(const struct other_claims_request *request)
{
	for (size_t i = 0; i < request->count; i++) {
		if (request->refs[i].ordering != ORDERING_NONE)
			return true;
	}
	return false;
}

int other_claims_begin(struct other_claims_search **out, struct db *db,
	const struct other_claims_request *request, struct err *err)
{
	CLEANUP(other_claims_search_freep)
	struct other_claims_search *search = calloc(1, sizeof(*search));
	int r = 0;

	if (search == NULL)
		return err_memory(err);
	search->db = db;
	search->request = *request;
	if (has_order(request))
		r = begin_search(search, err);
	if (r != 0)
		return r;
	*out = search;
	search = NULL;
	return 0;
}

int other_claims_continue(struct other_claims_search *search, int64_t until_ms, struct err *err)
{
	int r;

	do {
		if (is_over(search))
			return 0;
		r = read_window(search, err);
		if (r != 0)
			return r;
		if (search->found.count > MOST)
			return OTHER_CLAIMS_MANY;
	} while (clock_now_ms() < until_ms);
	return is_over(search) ? 0 : OTHER_CLAIMS_MORE;
}

const struct other_claims *other_claims_found(const struct other_claims_search *search)
{
	return &search->found;
}

void other_claims_search_free(struct other_claims_search *search)
{
	if (search == NULL)
		return;
	rows_free(search->others);
	free(search->found.items);
	free(search);
}

static int by_value(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a;
	int64_t second = *(const int64_t *)b;

	return (first > second) - (first < second);
}

int other_claims_look(
	struct db *db, int32_t instance, const struct other_claims_rows *of, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int array;
	int r;

	params_int(&params, instance);
	array = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < of->count; i++) {
		array_bigint(&params, array, of->seqs[i]);
		of->states[i] = OTHER_CLAIMS_HELD;
	}
	r = db_run(db, QUERY_HOLD_STATES, &params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		int64_t seq = rows_int(rows, i, 0);
		const int64_t *at = bsearch(&seq, of->seqs, of->count, sizeof(seq), by_value);

		if (at != NULL)
			of->states[at - of->seqs] =
				rows_bool(rows, i, 1) ? OTHER_CLAIMS_WAITING : OTHER_CLAIMS_OVER;
	}
	return r;
}
