/*
 * Implements known_handlers.h.
 */
#include "store/claims/known_handlers.h"

#include <stdlib.h>
#include <string.h>

#include "queries.h"
#include "store/batches/known_consumers.h"

/* The result columns of the statement known_handlers. */
enum {
	COLUMN_NAME,
	COLUMN_KNOWN,
	COLUMN_SAID,
	COLUMN_SUBSCRIBED,
	COLUMN_TOPIC,
	COLUMN_TYPE,
	COLUMN_CONSUMER
};

void known_own_free(struct known_own *own, size_t count)
{
	for (size_t i = 0; own != NULL && i < count; i++) {
		free(own[i].name);
		free(own[i].consumer);
		free(own[i].subscriptions);
	}
	free(own);
}

void known_fini(struct known *known)
{
	free(known->items);
	free(known->subs);
	rows_free(known->rows);
	pauses_fini(&known->pauses);
	*known = (struct known){ NULL };
}

static void add_own(struct params *params, const struct known_request *request)
{
	int name = params_array(params, ARRAY_TEXT);
	int consumer = params_array(params, ARRAY_TEXT);
	int subscriptions = params_array(params, ARRAY_JSONB);
	int hello_age = params_array(params, ARRAY_BIGINT);
	int gone = params_array(params, ARRAY_BIGINT);
	int fresh = params_array(params, ARRAY_BOOL);

	for (size_t i = 0; i < request->count; i++) {
		const struct known_own *own = &request->own[i];

		array_text(params, name, own->name);
		array_text(params, consumer, own->consumer);
		array_bytes(params, subscriptions, bytes_of(own->subscriptions));
		array_bigint(params, hello_age, own->hello_age_ms);
		array_bigint(params, gone, own->gone_ms);
		array_bool(params, fresh, own->fresh);
	}
	params_bigint(params, request->memory_ms);
	params_int(params, request->instance);
}

static void add_question(struct params *params, const struct known_request *request)
{
	int name;
	int consumer;

	params_bigint(params, request->memory_ms);
	params_bigint(params, request->lease_ms);
	name = params_array(params, ARRAY_TEXT);
	consumer = params_array(params, ARRAY_TEXT);
	for (size_t i = 0; i < request->count; i++) {
		if (request->own[i].gone_ms > 0)
			continue;
		array_text(params, name, request->own[i].name);
		array_text(params, consumer, request->own[i].consumer);
	}
}

static void read_row(struct known *known, int row, size_t *subs)
{
	const struct rows *rows = known->rows;
	const char *name = rows_text(rows, row, COLUMN_NAME);
	const char *consumer = rows_text(rows, row, COLUMN_CONSUMER);
	struct known_handler *item = known->count == 0 ? NULL : &known->items[known->count - 1];

	if (item == NULL || strcmp(item->remembered.handler.name, name) != 0 ||
		strcmp(item->remembered.handler.consumer, consumer) != 0) {
		item = &known->items[known->count++];
		*item = (struct known_handler){
			.known = rows_bool(rows, row, COLUMN_KNOWN),
			.remembered = { { consumer, name }, &known->subs[*subs], 0,
				rows_int(rows, row, COLUMN_SAID) },
		};
	}
	if (!rows_bool(rows, row, COLUMN_SUBSCRIBED))
		return;
	known->subs[(*subs)++] = (struct subscription){
		.topic = rows_text(rows, row, COLUMN_TOPIC),
		.type = rows_text(rows, row, COLUMN_TYPE),
	};
	item->remembered.count++;
}

/* Takes the rows. */
static int read_known(struct rows *rows, struct known *out, struct err *err)
{
	size_t count = (size_t)rows_count(rows);
	size_t subs = 0;

	out->items = calloc(count + 1, sizeof(*out->items));
	out->subs = calloc(count + 1, sizeof(*out->subs));
	out->count = 0;
	out->rows = rows;
	if (out->items == NULL || out->subs == NULL)
		return err_memory(err);
	for (int i = 0; i < rows_count(rows); i++)
		read_row(out, i, &subs);
	return 0;
}

static int read_pauses(struct db *db, struct known *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_read(db, QUERY_LIST_PAUSES, NULL, &rows, err);

	if (r != 0)
		return r;
	for (int i = 0; i < rows_count(rows); i++) {
		enum pause_kind kind = pause_kind_of(rows_text(rows, i, 0));

		if (kind < PAUSE_KINDS && !pauses_add(&out->pauses, kind, rows_text(rows, i, 1),
						  rows_bool(rows, i, 2)))
			return err_memory(err);
	}
	out->pauses_read = true;
	return 0;
}

static int exchange(
	struct db *db, const struct known_request *request, struct known *out, struct err *err)
{
	CLEANUP(params_fini) struct params own = PARAMS_INIT;
	CLEANUP(params_fini) struct params question = PARAMS_INIT;
	struct rows *rows = NULL;
	int r = db_begin(db, err);

	add_own(&own, request);
	add_question(&question, request);
	if (r == 0) /* an operator may be deleting a handler in an open transaction */
		r = db_queue(db, QUERY_SET_LOCK_TIMEOUT, NULL, NULL, err);
	if (r == 0)
		r = db_queue(db, QUERY_KEEP_HANDLERS, &own, NULL, err);
	if (r == 0)
		r = db_queue(db, QUERY_KNOWN_HANDLERS, &question, &rows, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r != 0) {
		rows_free(rows);
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	}
	return read_known(rows, out, err);
}

/* Their memory counts from this note. Ingest has defined them at the start of the instance run. */
static int note_consumers(struct db *db, const struct known_request *request, struct err *err)
{
	const struct consumers_listing listing = {
		.own = request->consumers,
		.memory_ms = known_consumers_memory_ms(request->memory_ms, request->lease_ms),
	};
	int r = request->consumers->count == 0 ? 0 : known_consumers_keep(db, &listing, err);

	return r == KNOWN_CONSUMERS_LOCKED ? 0 : r;
}

/* The pauses and the consumers have transactions of their own: whoever locks a handler does not keep them from their effect. */
int known_exchange(
	struct db *db, const struct known_request *request, struct known *out, struct err *err)
{
	int r;

	*out = (struct known){ NULL };
	r = read_pauses(db, out, err);
	if (r == 0)
		r = note_consumers(db, request, err);
	return r == 0 ? exchange(db, request, out, err) : r;
}
