/*
 * Implements known_consumers.h.
 */
#include "store/batches/known_consumers.h"

#include <string.h>

#include "json/text.h"
#include "queries.h"
#include "store/partition_ref.h"

/* The result columns of the statement known_consumers. */
enum { COLUMN_NAME, COLUMN_ORDERING, COLUMN_KIND, COLUMN_TEXT };
enum { KIND_TOPIC = 1, KIND_TYPE, KIND_RENAMED, KIND_MOVING, KIND_UNNAMED, KIND_UNLISTED };

/* As a JSON array; without texts NULL, which stands for all. */
static void add_texts(struct params *params, int array, const struct texts *texts)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	if (texts->count == 0) {
		array_null(params, array);
		return;
	}
	for (size_t i = 0; i < texts->count; i++) {
		buf_add_char(&json, i == 0 ? '[' : ',');
		json_add_string(&json, bytes_of(texts->items[i]));
	}
	buf_add_char(&json, ']');
	/* Without memory the array gets an invalid text, and the statement fails. */
	array_bytes(params, array, bytes_of(buf_ok(&json) ? buf_str(&json) : ""));
}

int known_consumers_keep(struct db *db, const struct consumers_listing *listing, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int name = params_array(&params, ARRAY_TEXT);
	int topics = params_array(&params, ARRAY_JSONB);
	int types = params_array(&params, ARRAY_JSONB);
	int ordering = params_array(&params, ARRAY_TEXT);
	int r;

	for (size_t i = 0; i < listing->own->count; i++) {
		const struct consumer *own = &listing->own->items[i];

		array_text(&params, name, own->name);
		add_texts(&params, topics, &own->topics);
		add_texts(&params, types, &own->types);
		array_text(&params, ordering, ordering_name(own->ordering));
	}
	params_bigint(&params, listing->memory_ms);
	params_bool(&params, listing->define);
	r = db_run(db, QUERY_KEEP_CONSUMERS, &params, &rows, err);
	if (r != 0)
		return r;
	for (int i = 0; i < rows_count(rows); i++) {
		if (!rows_is_null(rows, i, 1))
			listing->replaced(listing->arg, rows_text(rows, i, 0),
				rows_text(rows, i, 1), rows_text(rows, i, 2));
	}
	return (size_t)rows_count(rows) < listing->own->count ? KNOWN_CONSUMERS_LOCKED : 0;
}

static int read_row(const struct rows *rows, int row, struct consumers *out, struct err *err)
{
	const char *name = rows_text(rows, row, COLUMN_NAME);
	const char *text = rows_text(rows, row, COLUMN_TEXT);
	int64_t kind = rows_int(rows, row, COLUMN_KIND);
	struct consumer *consumer = consumers_find(out, name);

	if (kind == KIND_RENAMED || kind == KIND_MOVING)
		return consumers_add_rename(out, name, text, kind == KIND_MOVING, err);
	if (kind == KIND_UNNAMED)
		return consumers_add_unnamed(out, text, err);
	if (consumer == NULL)
		consumer = consumers_add(
			out, name, ordering_of(rows_text(rows, row, COLUMN_ORDERING)));
	if (consumer == NULL)
		return err_memory(err);
	switch (kind) {
	case KIND_UNLISTED:
		consumer->unlisted = true;
		return 0;
	case KIND_TOPIC:
		return consumer_add_topic(consumer, text, err);
	case KIND_TYPE:
		return consumer_add_type(consumer, text, err);
	default:
		return 0;
	}
}

int known_consumers_read(struct db *db, struct consumers *out, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(db, QUERY_KNOWN_CONSUMERS, NULL, &rows, err);

	for (int i = 0; r == 0 && i < rows_count(rows); i++)
		r = read_row(rows, i, out, err);
	return r;
}
