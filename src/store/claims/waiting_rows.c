/*
 * Implements waiting_rows.h.
 */
#include "store/claims/waiting_rows.h"

#include <stdlib.h>

#include "queries.h"
#include "store/claims/claim_params.h"

void parked_page_fini(struct parked_page *page)
{
	free(page->hashes);
	*page = (struct parked_page){ NULL };
}

static int page_size(const struct claim_request *request)
{
	return request->max_rows > INT32_MAX ? INT32_MAX : (int)request->max_rows;
}

/* Columns: hash, parked, wanted. */
static int read_page(const struct rows *rows, int asked, struct parked_page *out, struct err *err)
{
	int count = rows_count(rows);
	struct parked_page page = { .more = count == asked };

	page.hashes = calloc((size_t)count + 1, sizeof(*page.hashes));
	if (page.hashes == NULL)
		return err_memory(err);
	for (int i = 0; i < count; i++) {
		page.last = hash_of(rows_bytes(rows, i, 0));
		if (rows_bool(rows, i, 1) && rows_bool(rows, i, 2))
			page.hashes[page.count++] = page.last;
	}
	*out = page;
	return 0;
}

static void add_stream(struct params *params, const struct stream_ref *stream)
{
	params_text(params, stream->topic);
	params_int(params, stream->partition);
	params_text(params, stream->consumer);
}

static void add_after(struct params *params, const uint64_t *after)
{
	unsigned char wire[8];

	for (int i = 0; after != NULL && i < 8; i++)
		wire[i] = (unsigned char)(*after >> (56 - 8 * i));
	params_bytea(params, (struct bytes){ wire, after == NULL ? 0 : sizeof(wire) });
}

int waiting_rows_find_parked(struct db *db, const struct claim_request *request,
	const struct parked_position *position, struct parked_page *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int asked = page_size(request);
	int r;

	*out = (struct parked_page){ NULL };
	if (position->stream.ordering != ORDERING_KEY)
		return 0;
	add_stream(&params, &position->stream);
	add_after(&params, position->after);
	params_int(&params, asked);
	r = add_subscriptions(&params, request->routing, err);
	if (r == 0)
		r = db_run(db, QUERY_FIND_PARKED, &params, &rows, err);
	return r != 0 ? r : read_page(rows, asked, out, err);
}

int waiting_rows_release(struct db *db, const struct claim_request *request,
	const struct stream_ref *stream, int64_t *released, struct err *err)
{
	static const enum query queries[] = {
		[ORDERING_NONE] = QUERY_RELEASE_UNORDERED,
		[ORDERING_KEY] = QUERY_RELEASE_UNKEYED,
	};
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	*released = 0;
	/* with ORDERING_PARTITION every row waits for the previous one, and claims take parked rows
	 * as well */
	if (stream->ordering == ORDERING_PARTITION)
		return 0;
	add_stream(&params, stream);
	params_int(&params, page_size(request));
	r = add_subscriptions(&params, request->routing, err);
	if (r == 0)
		r = db_run(db, queries[stream->ordering], &params, &rows, err);
	if (r == 0)
		*released = rows_affected(rows);
	return r;
}

int waiting_rows_any(
	struct db *db, const struct claim_streams *streams, bool *waiting, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	add_streams(&params, streams->items, streams->count);
	r = db_run(db, QUERY_ANY_WAITING, &params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++)
		waiting[i] = rows_bool(rows, i, 0);
	return r;
}

/* The results of the statements of one measurement. */
struct gauge_rows {
	struct rows *waiting;
	struct rows *dead;
	struct rows *unrouted;
	struct rows *snapshot;
};

static void gauge_rows_fini(struct gauge_rows *result)
{
	rows_free(result->waiting);
	rows_free(result->dead);
	rows_free(result->unrouted);
	rows_free(result->snapshot);
}

int waiting_rows_gauges(
	struct db *db, const struct gauges_request *request, struct gauges *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(params_fini) struct params cap = PARAMS_INIT;
	CLEANUP(gauge_rows_fini) struct gauge_rows results = { NULL, NULL, NULL, NULL };
	int r = db_begin(db, err);

	add_streams(&params, request->streams.items, request->streams.count);
	params_bigint(&params, request->cap);
	params_bigint(&cap, request->cap);
	if (r == 0)
		r = db_queue(db, QUERY_COUNT_WAITING, &params, &results.waiting, err);
	if (r == 0) {
		r = add_connected(&params, request->routing, err);
		if (r != 0)
			db_rollback(db);
	}
	if (r == 0)
		r = db_queue(db, QUERY_COUNT_UNROUTED, &params, &results.unrouted, err);
	if (r == 0 && request->expensive)
		r = db_queue(db, QUERY_COUNT_DEAD, &cap, &results.dead, err);
	if (r == 0 && request->expensive)
		r = db_queue(db, QUERY_OLDEST_SNAPSHOT, NULL, &results.snapshot, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	out->waiting = rows_int(results.waiting, 0, 0);
	out->oldest_due_ms = rows_int(results.waiting, 0, 1);
	out->unrouted = rows_int(results.unrouted, 0, 0);
	if (rows_int(results.unrouted, 0, 1) > out->oldest_due_ms)
		out->oldest_due_ms = rows_int(results.unrouted, 0, 1);
	if (request->expensive) {
		out->dead = rows_int(results.dead, 0, 0);
		out->snapshot_ms = rows_int(results.snapshot, 0, 0);
	}
	return 0;
}
