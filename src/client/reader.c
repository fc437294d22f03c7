/*
 * See reader.h. One table has a rule for each member of the protocol that is kept; json/table.h walks through a line
 * by it. Texts go into the record of the line or of the delivery that is being read. A member that is given again
 * replaces the one before. Null is a value only where raw JSON is kept; elsewhere a null member is ignored.
 *
 * The sidecar sends events that are nested up to 512 levels deep, inside of a few levels of its own.
 */
#include "client/reader.h"

#include <stdlib.h>

#include "json/table.h"

enum { KEPT_BYTES = 65536 };

enum place {
	TOP = 1,
	PARAMS,
	RESULT,
	ERROR,
	ENTRIES,
	ENTRY,
	DELIVERY,
	EVENT,
	HEADERS,
	HEADER, /* [name, value], each a string or an object with base64; further items may come */
	HEADER_BYTES,
};

struct ih_reader {
	struct ih_pool *pool;
	struct json_stream *stream;
	struct ih_line line;
	struct inbox_delivery *delivery; /* the one being read, already in line.deliveries */
	struct ih_pair *pair;            /* the header or attribute being read, NULL = none */
	size_t item;                     /* how many parts of the header have been read */
	bool no_memory;
};

/* The text of a scalar. */
static struct bytes text_of(const struct json_token *value)
{
	return value->kind == JSON_STRING ? value->text : value->raw;
}

static void keep(struct ih_reader *reader, const struct json_rule *rule, struct bytes text)
{
	struct ih_record *record = rule->field <= IH_LAST_LINE_FIELD ? &reader->line.record
								     : &reader->delivery->record;

	record->fields[rule->field] = ih_record_add(record, text);
}

static void keep_text(void *target, const struct json_rule *rule, const struct json_token *value)
{
	keep(target, rule, text_of(value));
}

static void keep_raw(void *target, const struct json_rule *rule, const struct json_token *value)
{
	keep(target, rule, value->raw);
}

static void decode(struct ih_reader *reader, const struct json_token *value, struct ih_slice *out)
{
	if (!ih_record_add_base64(&reader->delivery->record, text_of(value), out))
		reader->delivery->broken = "a base64 text in it is not base64";
}

static void keep_base64(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct ih_reader *reader = target;

	decode(reader, value, &reader->delivery->record.fields[rule->field]);
}

static void begin_delivery(
	void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct ih_reader *reader = target;

	(void)rule;
	(void)value;
	reader->delivery = ih_pool_take(reader->pool);
	if (reader->delivery == NULL)
		reader->no_memory = true;
	else
		TAILQ_INSERT_TAIL(&reader->line.deliveries, reader->delivery, list);
}

/* The parts of a delivery that is alone in its line. The first of them begins it. */
static void begin_part(void *target, const struct json_rule *rule, const struct json_token *value)
{
	if (((struct ih_reader *)target)->delivery == NULL)
		begin_delivery(target, rule, value);
}

/* The delivery of a deliver, or the id of one in a cancel. */
static void keep_delivery(
	void *target, const struct json_rule *rule, const struct json_token *value)
{
	if (value->kind == JSON_OBJECT)
		begin_part(target, rule, value);
	else
		keep_raw(target, rule, value);
}

static void begin_entries(
	void *target, const struct json_rule *rule, const struct json_token *value)
{
	(void)rule;
	(void)value;
	((struct ih_reader *)target)->line.entries = true;
}

static void begin_pair(struct ih_reader *reader, struct ih_pairs *pairs)
{
	reader->pair = ih_pairs_add(pairs);
	reader->no_memory = reader->no_memory || reader->pair == NULL;
}

static void begin_header(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct ih_reader *reader = target;

	(void)rule;
	(void)value;
	begin_pair(reader, &reader->delivery->headers);
	reader->item = 0;
}

/* The name or the value of a header; NULL: a further item, which a later version may define. */
static struct ih_slice *header_part(const struct ih_reader *reader)
{
	struct ih_slice *parts[] = { &reader->pair->name, &reader->pair->value };

	return reader->item < 2 ? parts[reader->item] : NULL;
}

static void keep_item(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct ih_reader *reader = target;
	struct ih_slice *part = header_part(reader);

	(void)rule;
	if (value->kind == JSON_OBJECT)
		return; /* its end counts */
	if (part != NULL && value->kind != JSON_NULL)
		*part = ih_record_add(&reader->delivery->record, text_of(value));
	reader->item++;
}

static void keep_item_base64(
	void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct ih_slice *part = header_part(target);

	(void)rule;
	if (part != NULL)
		decode(target, value, part);
}

#define OBJECT JSON_IS(JSON_OBJECT)
#define ARRAY  JSON_IS(JSON_ARRAY)
#define NONE   JSON_IS(JSON_NULL)
#define TEXT   (JSON_IS(JSON_STRING) | JSON_IS(JSON_NUMBER) | JSON_IS(JSON_BOOLEAN))
#define ANY    (TEXT | NONE | OBJECT | ARRAY)

/* clang-format off */
static const struct json_rule rules[] = {
	{ TOP, "id", 0, ANY, 0, keep_raw, IH_LINE_ID },
	{ TOP, "method", 0, TEXT, 0, keep_text, IH_METHOD },
	{ TOP, "params", 0, OBJECT, PARAMS },
	{ TOP, "result", 0, OBJECT, RESULT },
	{ TOP, "error", 0, OBJECT, ERROR },
	{ PARAMS, "delivery", 0, TEXT | NONE | OBJECT, DELIVERY, keep_delivery, IH_CANCELLED_ID },
	{ PARAMS, "event", 0, OBJECT, EVENT, begin_part },
	{ PARAMS, "headers", 0, ARRAY, HEADERS, begin_part },
	{ PARAMS, "entries", 0, ARRAY, ENTRIES, begin_entries },
	{ PARAMS, "reason", 0, TEXT, 0, keep_text, IH_CANCEL_REASON },
	{ RESULT, "max_line_bytes", 0, TEXT, 0, keep_text, IH_MAX_LINE_BYTES },
	{ RESULT, "timeout_ms", 0, TEXT, 0, keep_text, IH_TIMEOUT },
	{ RESULT, "ordering", 0, TEXT, 0, keep_text, IH_ORDERING },
	{ ERROR, "code", 0, TEXT, 0, keep_text, IH_ERROR_CODE },
	{ ERROR, "message", 0, TEXT, 0, keep_text, IH_ERROR_MESSAGE },
	{ ENTRIES, NULL, 0, OBJECT, ENTRY, begin_delivery },
	{ ENTRY, "id", 0, ANY, 0, keep_raw, IH_ID },
	{ ENTRY, "delivery", 0, OBJECT, DELIVERY },
	{ ENTRY, "event", 0, OBJECT, EVENT },
	{ ENTRY, "headers", 0, ARRAY, HEADERS },
	{ DELIVERY, "claim", 0, TEXT, 0, keep_text, IH_CLAIM },
	{ DELIVERY, "seq", 0, TEXT, 0, keep_text, IH_SEQ },
	{ DELIVERY, "attempt", 0, TEXT, 0, keep_text, IH_ATTEMPT },
	{ DELIVERY, "max_attempts", 0, TEXT, 0, keep_text, IH_MAX_ATTEMPTS },
	{ DELIVERY, "consumer", 0, TEXT, 0, keep_text, IH_CONSUMER },
	{ DELIVERY, "deadline", 0, TEXT, 0, keep_text, IH_DEADLINE },
	{ DELIVERY, "replay", 0, TEXT, 0, keep_text, IH_REPLAY },
	{ EVENT, "id", 0, TEXT, 0, keep_text, IH_EVENT_ID },
	{ EVENT, "source", 0, TEXT, 0, keep_text, IH_SOURCE },
	{ EVENT, "type", 0, TEXT, 0, keep_text, IH_TYPE },
	{ EVENT, "time", 0, TEXT, 0, keep_text, IH_TIME },
	{ EVENT, "partitionkey", 0, TEXT, 0, keep_text, IH_KEY },
	{ EVENT, "kafkatopic", 0, TEXT, 0, keep_text, IH_TOPIC },
	{ EVENT, "kafkapartition", 0, TEXT, 0, keep_text, IH_PARTITION },
	{ EVENT, "kafkaoffset", 0, TEXT, 0, keep_text, IH_OFFSET },
	{ EVENT, "data", 0, ANY, 0, keep_raw, IH_DATA_JSON },
	{ EVENT, "data_base64", 0, TEXT, 0, keep_base64, IH_DATA },
	{ EVENT, "partitionkeybase64", 0, TEXT, 0, keep_base64, IH_KEY },
	{ HEADERS, NULL, 0, ARRAY, HEADER, begin_header },
	{ HEADER, NULL, 0, TEXT | NONE | OBJECT, HEADER_BYTES, keep_item },
	{ HEADER_BYTES, "base64", 0, TEXT, 0, keep_item_base64 },
};
/* clang-format on */

_Static_assert(sizeof(rules) / sizeof(rules[0]) <= JSON_TABLE_RULES, "the table is too large");

/* A header can have items of kinds that a later version defines. They count. */
static void mistyped(void *target, const struct json_rule *rule, enum json_kind kind)
{
	(void)kind;
	if (rule->place == HEADER)
		((struct ih_reader *)target)->item++;
}

/* The other members of an event are its attributes. */
static void unknown_name(void *target, int place, struct bytes name)
{
	struct ih_reader *reader = target;

	if (place != EVENT)
		return;
	begin_pair(reader, &reader->delivery->attributes);
	if (reader->pair != NULL)
		reader->pair->name = ih_record_add(&reader->delivery->record, name);
}

static void unknown_value(void *target, int place, const struct json_token *value)
{
	struct ih_reader *reader = target;

	if (place == EVENT && (JSON_IS(value->kind) & TEXT) != 0)
		reader->pair->value = ih_record_add(&reader->delivery->record, text_of(value));
}

static void ended(void *target, int place, struct bytes raw)
{
	struct ih_reader *reader = target;
	struct ih_record *record;

	if (reader->delivery == NULL)
		return;
	record = &reader->delivery->record;
	/* The program gets the whole event, besides its attributes. */
	if (place == EVENT)
		record->fields[IH_EVENT] = ih_record_add(record, raw);
	else if (place == HEADER && reader->pair->name.start == 0)
		reader->pair->name = ih_record_add(record, (struct bytes){ "", 0 });
	else if (place == HEADER_BYTES)
		reader->item++;
}

static bool has_no_memory(const void *target)
{
	return ((const struct ih_reader *)target)->no_memory;
}

static const struct json_table table = {
	.rules = rules,
	.count = sizeof(rules) / sizeof(rules[0]),
	.root = TOP,
	.mistyped = mistyped,
	.unknown_name = unknown_name,
	.unknown_value = unknown_value,
	.ended = ended,
	.stopped = has_no_memory,
};

struct ih_reader *ih_reader_new(struct ih_pool *pool)
{
	static const struct json_limits limits = { .max_depth = JSON_DEEPEST, .any_space = true };
	struct ih_reader *reader = calloc(1, sizeof(*reader));

	if (reader == NULL)
		return NULL;
	reader->pool = pool;
	TAILQ_INIT(&reader->line.deliveries);
	if (json_stream_new_with(&reader->stream, &limits, NULL) < 0) {
		ih_reader_free(reader);
		return NULL;
	}
	return reader;
}

void ih_reader_free(struct ih_reader *reader)
{
	if (reader == NULL)
		return;
	ih_pool_give_all(reader->pool, &reader->line.deliveries);
	ih_record_fini(&reader->line.record);
	json_stream_free(reader->stream);
	free(reader);
}

/* A text that is missing in a record makes the line as unusable as a missing delivery. */
static bool ran_out_of_memory(const struct ih_reader *reader)
{
	const struct inbox_delivery *delivery;

	if (reader->no_memory || !buf_ok(&reader->line.record.bag))
		return true;
	TAILQ_FOREACH (delivery, &reader->line.deliveries, list) {
		if (!buf_ok(&delivery->record.bag))
			return true;
	}
	return false;
}

int ih_reader_read(struct ih_reader *reader, const char *text, size_t length, struct ih_line **out)
{
	int r;

	ih_pool_give_all(reader->pool, &reader->line.deliveries);
	ih_record_clear(&reader->line.record, KEPT_BYTES);
	reader->line.entries = false;
	reader->delivery = NULL;
	reader->pair = NULL;
	reader->no_memory = false;
	r = json_table_read(reader->stream, (struct bytes){ text, length }, &table, reader, NULL);
	if (r < 0 || ran_out_of_memory(reader))
		return INBOX_ERROR_MEMORY;
	if (r != 0)
		return IH_READER_BROKEN;
	*out = &reader->line;
	return 0;
}
