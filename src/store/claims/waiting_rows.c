/*
 * Implements waiting_rows.h.
 */
#include "store/claims/waiting_rows.h"

#include <stdlib.h>
#include <string.h>

#include "queries.h"
#include "store/claims/claim_params.h"

#define BACKLOGS_AT_ONCE 4 /* consumers with two statements each, in one round trip */

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
	r = db_read(db, QUERY_ANY_WAITING, &params, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++)
		waiting[i] = rows_bool(rows, i, 0);
	return r;
}

/* --- Gauges ------------------------------------------------------------------------------------ */

static int64_t version_of(const struct rows *rows, int column)
{
	int64_t version = rows_int(rows, 0, column);

	return version == 0 ? 1 : version;
}

int waiting_rows_look(
	struct db *db, const struct look_request *request, struct table_look *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, request->instance);
	params_bigint(&params, request->lease_ms);
	add_streams(&params, request->streams.items, request->streams.count);
	params_bigint(&params, request->memory_ms);
	r = db_read(db, QUERY_LOOK_AT_TABLE, &params, &rows, err);
	if (r != 0)
		return r;
	*out = (struct table_look){
		.due_in_ms = rows_is_null(rows, 0, 0) ? INT64_MAX : rows_int(rows, 0, 0),
		.handlers_version = version_of(rows, 1),
		.consumers_version = version_of(rows, 2),
		.orphans = rows_bool(rows, 0, 3),
		.retained_elsewhere = rows_bool(rows, 0, 4),
	};
	return 0;
}

void backlogs_fini(struct backlogs *backlogs)
{
	for (size_t i = 0; i < backlogs->count; i++)
		free(backlogs->items[i].consumer);
	free(backlogs->items);
	*backlogs = (struct backlogs){ NULL };
}

struct backlog *backlogs_find(const struct backlogs *backlogs, const char *consumer)
{
	for (size_t i = 0; i < backlogs->count; i++) {
		if (strcmp(backlogs->items[i].consumer, consumer) == 0)
			return &backlogs->items[i];
	}
	return NULL;
}

struct backlog *backlogs_add(struct backlogs *backlogs, const char *consumer)
{
	size_t size = (backlogs->count + 1) * sizeof(*backlogs->items);
	struct backlog *items = realloc(backlogs->items, size);
	char *name = strdup(consumer);

	if (items != NULL)
		backlogs->items = items;
	if (items == NULL || name == NULL) {
		free(name);
		return NULL;
	}
	items[backlogs->count] = (struct backlog){ .consumer = name };
	return &items[backlogs->count++];
}

void gauges_fini(struct gauges *gauges)
{
	backlogs_fini(&gauges->known);
	backlogs_fini(&gauges->for_nobody);
}

/* The results of the statements of one measurement. */
struct backlog_rows {
	struct rows *waiting;
	struct rows *unrouted;
};

struct gauge_rows {
	struct backlog_rows *known; /* one for each known consumer */
	size_t count;
	struct rows *for_nobody;
	struct rows *table;
};

static void gauge_rows_fini(struct gauge_rows *results)
{
	for (size_t i = 0; results->known != NULL && i < results->count; i++) {
		rows_free(results->known[i].waiting);
		rows_free(results->known[i].unrouted);
	}
	free(results->known);
	rows_free(results->for_nobody);
	rows_free(results->table);
}

static void add_streams_of(
	struct params *params, const struct claim_streams *streams, const char *consumer)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);
	int name = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < streams->count; i++) {
		if (strcmp(streams->items[i].consumer, consumer) != 0)
			continue;
		array_text(params, topic, streams->items[i].topic);
		array_int(params, partition, streams->items[i].partition);
		array_text(params, name, consumer);
	}
}

/* Each consumer has statements of its own. Otherwise many rows of one would hide those of another behind the cap. */
static int queue_backlog(struct db *db, const struct gauges_request *request, const char *consumer,
	struct backlog_rows *results, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	add_streams_of(&params, &request->streams, consumer);
	params_bigint(&params, request->cap);
	r = db_queue(db, QUERY_COUNT_WAITING, &params, &results->waiting, err);
	if (r == 0) {
		r = add_connected(&params, request->routing, err);
		if (r != 0)
			db_rollback(db);
	}
	return r != 0 ? r : db_queue(db, QUERY_COUNT_UNROUTED, &params, &results->unrouted, err);
}

static int queue_for_nobody(struct db *db, const struct gauges_request *request,
	const struct backlogs *known, struct rows **result, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int topic = params_array(&params, ARRAY_TEXT);
	int partition = params_array(&params, ARRAY_INT);
	int name = params_array(&params, ARRAY_TEXT);

	for (size_t i = 0; i < request->streams.count; i++) {
		array_text(&params, topic, request->streams.items[i].topic);
		array_int(&params, partition, request->streams.items[i].partition);
	}
	for (size_t i = 0; i < known->count; i++)
		array_text(&params, name, known->items[i].consumer);
	params_bigint(&params, request->cap);
	return db_queue(db, QUERY_COUNT_FOR_NOBODY, &params, result, err);
}

static int queue_expensive(struct db *db, const struct gauges_request *request,
	const struct backlogs *known, struct gauge_rows *results, struct err *err)
{
	CLEANUP(params_fini) struct params cap = PARAMS_INIT;
	int r = queue_for_nobody(db, request, known, &results->for_nobody, err);

	params_bigint(&cap, request->cap);
	return r != 0 ? r : db_queue(db, QUERY_COUNT_TABLE, &cap, &results->table, err);
}

static void read_backlog(const struct backlog_rows *results, struct backlog *out)
{
	out->waiting = rows_int(results->waiting, 0, 0);
	out->oldest_due_ms = rows_int(results->waiting, 0, 1);
	out->unrouted = rows_int(results->unrouted, 0, 0);
	out->held = rows_int(results->unrouted, 0, 2);
	if (rows_int(results->unrouted, 0, 1) > out->oldest_due_ms)
		out->oldest_due_ms = rows_int(results->unrouted, 0, 1);
}

static int read_for_nobody(const struct rows *rows, struct backlogs *out, struct err *err)
{
	for (int i = 0; i < rows_count(rows); i++) {
		struct backlog *backlog = backlogs_add(out, rows_text(rows, i, 0));

		if (backlog == NULL)
			return err_memory(err);
		backlog->waiting = rows_int(rows, i, 1);
	}
	return 0;
}

static int begin_another(struct db *db, struct err *err)
{
	int r = db_flush(db, err);

	return r == 0 ? db_begin_reading(db, err) : r;
}

/* A pipeline has room for the statements of a few consumers only (db_queue). */
static int queue_backlogs(struct db *db, const struct gauges_request *request,
	const struct backlogs *known, struct gauge_rows *results, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < known->count; i++) {
		r = queue_backlog(db, request, known->items[i].consumer, &results->known[i], err);
		if (r == 0 && (i + 1) % BACKLOGS_AT_ONCE == 0)
			r = begin_another(db, err);
	}
	return r;
}

int waiting_rows_gauges(
	struct db *db, const struct gauges_request *request, struct gauges *out, struct err *err)
{
	CLEANUP(gauge_rows_fini) struct gauge_rows results = { .count = out->known.count };
	int r;

	results.known = calloc(out->known.count + 1, sizeof(*results.known));
	if (results.known == NULL)
		return err_memory(err);
	r = db_begin_reading(db, err);
	if (r == 0)
		r = queue_backlogs(db, request, &out->known, &results, err);
	if (r == 0 && request->expensive)
		r = queue_expensive(db, request, &out->known, &results, err);
	if (r == 0)
		r = db_flush(db, err);
	if (r != 0)
		return r;
	for (size_t i = 0; i < out->known.count; i++)
		read_backlog(&results.known[i], &out->known.items[i]);
	if (!request->expensive)
		return 0;
	out->dead = rows_int(results.table, 0, 0);
	out->snapshot_ms = rows_int(results.table, 0, 1);
	out->unattended = rows_int(results.table, 0, 2);
	return read_for_nobody(results.for_nobody, &out->for_nobody, err);
}
