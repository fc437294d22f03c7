/*
 * See reader.h; the tables of members.c say which members are kept. The yajl parser is kept from line to line
 * (it allows several values in a row for that) and made anew only after a line it could not read.
 */
#include "client/reader.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "client/members.h"

enum { DEPTH = 8, KEPT_BYTES = 65536 };

struct ih_reader {
	struct ih_pool *pool;
	yajl_handle yajl;
	struct ih_line line;
	struct inbox_delivery *delivery; /* the one being read, already in line.deliveries */
	const char *text;
	enum ih_node stack[DEPTH];
	size_t depth;
	size_t unknown;     /* levels of nesting inside an unknown value; 0 = none */
	size_t value_start; /* where that value, or the event, starts in the line */
	size_t event_start;
	size_t last;                    /* where the last token ended */
	const struct ih_member *member; /* what the value at hand is, NULL = nothing known */
	struct ih_pair *pair;           /* the header or attribute being read, NULL = none */
	size_t item;                    /* how many parts of the header have been read */
	size_t end;                     /* where the one object ended; 0 = it has not */
	bool no_memory;
};

static size_t consumed(const struct ih_reader *reader)
{
	return yajl_get_bytes_consumed(reader->yajl);
}

static int go_on(struct ih_reader *reader)
{
	reader->last = consumed(reader);
	return !reader->no_memory;
}

static enum ih_node current(const struct ih_reader *reader)
{
	return reader->depth == 0 ? IH_NODE_UNKNOWN : reader->stack[reader->depth - 1];
}

static struct ih_record *record_of(struct ih_reader *reader, enum ih_field field)
{
	if (field <= IH_LAST_LINE_FIELD)
		return &reader->line.record;
	return &reader->delivery->record;
}

static bool separates(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == ':' || c == ',';
}

/* Keeps the text of a value as it is in the line, from the end of the last token. */
static void keep_raw(struct ih_reader *reader, enum ih_field field, size_t start)
{
	struct ih_record *record = record_of(reader, field);

	while (separates(reader->text[start]))
		start++;
	record->fields[field] =
		ih_record_add(record, reader->text + start, consumed(reader) - start);
}

static void keep_base64(
	struct ih_reader *reader, const char *text, size_t length, struct ih_slice *out)
{
	if (!ih_record_add_base64(&reader->delivery->record, text, length, out))
		reader->delivery->broken = "a base64 text in it is not base64";
}

static void keep_field(struct ih_reader *reader, const char *text, size_t length)
{
	const struct ih_member *member = reader->member;
	struct ih_record *record;

	if (member == NULL || member->field == IH_NO_FIELD)
		return;
	record = record_of(reader, member->field);
	if (member->how == IH_AS_RAW)
		keep_raw(reader, member->field, reader->last);
	else if (member->how == IH_AS_BASE64)
		keep_base64(reader, text, length, &record->fields[member->field]);
	else
		record->fields[member->field] = ih_record_add(record, text, length);
}

static void keep_header_part(struct ih_reader *reader, const char *text, size_t length)
{
	struct ih_slice *part = reader->item == 0 ? &reader->pair->name : &reader->pair->value;

	if (current(reader) == IH_NODE_HEADER_BYTES)
		keep_base64(reader, text, length, part);
	else
		*part = ih_record_add(&reader->delivery->record, text, length);
}

/* True for the name and the value of a header. Further items are ignored; later versions may define them. */
static bool in_header(const struct ih_reader *reader)
{
	const enum ih_node node = current(reader);

	return reader->item < 2 &&
	       (node == IH_NODE_HEADER || (node == IH_NODE_HEADER_BYTES && reader->member != NULL));
}

static int on_value(struct ih_reader *reader, const char *text, size_t length)
{
	if (reader->unknown > 0)
		return 1;
	if (in_header(reader))
		keep_header_part(reader, text, length);
	else if (current(reader) == IH_NODE_EVENT && reader->pair != NULL)
		reader->pair->value = ih_record_add(&reader->delivery->record, text, length);
	else
		keep_field(reader, text, length);
	if (current(reader) == IH_NODE_HEADER)
		reader->item++;
	return go_on(reader);
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
	return on_value(context, (const char *)text, length);
}

static int on_number(void *context, const char *text, size_t length)
{
	return on_value(context, text, length);
}

static int on_boolean(void *context, int value)
{
	return value ? on_value(context, "true", 4) : on_value(context, "false", 5);
}

/* Null is a value only where raw JSON is kept. Elsewhere a null member is ignored. */
static int on_null(void *context)
{
	struct ih_reader *reader = context;

	if (reader->unknown > 0)
		return 1;
	if (current(reader) == IH_NODE_HEADER)
		reader->item++;
	else if (reader->member != NULL && reader->member->how == IH_AS_RAW)
		keep_field(reader, NULL, 0);
	return go_on(reader);
}

static void begin_pair(struct ih_reader *reader, struct ih_pairs *pairs)
{
	reader->pair = ih_pairs_add(pairs);
	reader->no_memory = reader->no_memory || reader->pair == NULL;
}

static int on_key(void *context, const unsigned char *name, size_t length)
{
	struct ih_reader *reader = context;

	if (reader->unknown > 0)
		return 1;
	reader->member = ih_member_find(current(reader), (const char *)name, length);
	if (current(reader) == IH_NODE_EVENT) {
		reader->pair = NULL;
		if (reader->member == NULL)
			begin_pair(reader, &reader->delivery->attributes);
		if (reader->pair != NULL)
			reader->pair->name = ih_record_add(
				&reader->delivery->record, (const char *)name, length);
	}
	return go_on(reader);
}

static void begin_delivery(struct ih_reader *reader)
{
	reader->delivery = ih_pool_take(reader->pool);
	if (reader->delivery == NULL)
		reader->no_memory = true;
	else
		TAILQ_INSERT_TAIL(&reader->line.deliveries, reader->delivery, list);
}

/* Prepares for the members of an object or array. */
static void enter(struct ih_reader *reader, enum ih_node node)
{
	const bool alone = current(reader) == IH_NODE_PARAMS && reader->delivery == NULL;

	if (node == IH_NODE_ENTRY || (alone && (node == IH_NODE_DELIVERY || node == IH_NODE_EVENT ||
						       node == IH_NODE_HEADERS)))
		begin_delivery(reader);
	if (node == IH_NODE_ENTRIES)
		reader->line.entries = true;
	if (node == IH_NODE_EVENT)
		reader->event_start = consumed(reader) - 1;
	if (node == IH_NODE_HEADER && reader->delivery != NULL) {
		begin_pair(reader, &reader->delivery->headers);
		reader->item = 0;
	}
	reader->stack[reader->depth++] = node;
	reader->member = NULL;
}

static enum ih_node expected(const struct ih_reader *reader)
{
	if (reader->depth == 0)
		return reader->end == 0 ? IH_NODE_TOP : IH_NODE_UNKNOWN;
	if (!ih_nodes[current(reader)].map)
		return ih_nodes[current(reader)].item;
	return reader->member == NULL ? IH_NODE_UNKNOWN : reader->member->child;
}

static int on_open(struct ih_reader *reader, bool map)
{
	const enum ih_node node = expected(reader);

	if (reader->unknown > 0) {
		reader->unknown++;
		return 1;
	}
	if (node == IH_NODE_UNKNOWN || ih_nodes[node].map != map || reader->depth == DEPTH) {
		reader->unknown = 1;
		reader->value_start = consumed(reader) - 1;
		return 1;
	}
	enter(reader, node);
	return go_on(reader);
}

static void leave_unknown(struct ih_reader *reader)
{
	if (reader->member != NULL && reader->member->how == IH_AS_RAW)
		keep_raw(reader, reader->member->field, reader->value_start);
	if (current(reader) == IH_NODE_HEADER)
		reader->item++;
}

static void leave(struct ih_reader *reader)
{
	const enum ih_node node = reader->stack[--reader->depth];

	if (node == IH_NODE_EVENT)
		keep_raw(reader, IH_EVENT, reader->event_start);
	if (node == IH_NODE_HEADER && reader->pair->name.start == 0)
		reader->pair->name = ih_record_add(&reader->delivery->record, "", 0);
	if (node == IH_NODE_HEADER_BYTES)
		reader->item++;
	if (reader->depth == 0)
		reader->end = consumed(reader);
	reader->member = NULL;
}

static int on_close(struct ih_reader *reader)
{
	if (reader->unknown > 1) {
		reader->unknown--;
		return 1;
	}
	if (reader->unknown == 1)
		leave_unknown(reader);
	else
		leave(reader);
	reader->unknown = 0;
	return go_on(reader);
}

static int on_map(void *context)
{
	return on_open(context, true);
}

static int on_array(void *context)
{
	return on_open(context, false);
}

static int on_end(void *context)
{
	return on_close(context);
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_end,
};

static bool open_yajl(struct ih_reader *reader)
{
	if (reader->yajl != NULL)
		return true;
	reader->yajl = yajl_alloc(&callbacks, NULL, reader);
	if (reader->yajl == NULL)
		return false;
	yajl_config(reader->yajl, yajl_allow_multiple_values, 1);
	return true;
}

static void close_yajl(struct ih_reader *reader)
{
	if (reader->yajl != NULL)
		yajl_free(reader->yajl);
	reader->yajl = NULL;
}

struct ih_reader *ih_reader_new(struct ih_pool *pool)
{
	struct ih_reader *reader = calloc(1, sizeof(*reader));

	if (reader == NULL)
		return NULL;
	reader->pool = pool;
	TAILQ_INIT(&reader->line.deliveries);
	return reader;
}

void ih_reader_free(struct ih_reader *reader)
{
	if (reader == NULL)
		return;
	ih_pool_give_all(reader->pool, &reader->line.deliveries);
	ih_record_fini(&reader->line.record);
	close_yajl(reader);
	free(reader);
}

static void begin_line(struct ih_reader *reader, const char *text)
{
	ih_pool_give_all(reader->pool, &reader->line.deliveries);
	ih_record_clear(&reader->line.record, KEPT_BYTES);
	reader->line.entries = false;
	reader->text = text;
	reader->delivery = NULL;
	reader->pair = NULL;
	reader->member = NULL;
	reader->depth = 0;
	reader->unknown = 0;
	reader->last = 0;
	reader->end = 0;
	reader->no_memory = false;
}

static bool ran_out_of_memory(const struct ih_reader *reader)
{
	const struct inbox_delivery *delivery;

	if (reader->no_memory || reader->line.record.bag.broken)
		return true;
	TAILQ_FOREACH (delivery, &reader->line.deliveries, list) {
		if (delivery->record.bag.broken)
			return true;
	}
	return false;
}

/* True if only white space follows the object, so that yajl waits for the next one. */
static bool ended_well(const struct ih_reader *reader, size_t length)
{
	size_t i = reader->end;

	while (i < length && (reader->text[i] == ' ' || reader->text[i] == '\r'))
		i++;
	return reader->end > 0 && i == length;
}

int ih_reader_read(struct ih_reader *reader, const char *text, size_t length, struct ih_line **out)
{
	yajl_status status;

	begin_line(reader, text);
	if (!open_yajl(reader))
		return INBOX_ERROR_MEMORY;
	status = yajl_parse(reader->yajl, (const unsigned char *)text, length);
	if (status != yajl_status_ok || !ended_well(reader, length))
		close_yajl(reader);
	if (ran_out_of_memory(reader))
		return INBOX_ERROR_MEMORY;
	if (reader->yajl == NULL)
		return IH_READER_BROKEN;
	*out = &reader->line;
	return 0;
}
