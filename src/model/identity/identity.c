/*
 * Finds the identity of a record. The type comes first, so that a record of a type that is not accepted is skipped
 * and never rejected. Then come id and source. Every byte sequence ends in an identity, a skip, or a reject with a
 * reason. None stops a partition; the only fault is a lack of memory.
 *
 * The same record must always have the same identity, in every sidecar and every version: duplicates are recognised by
 * it. So nothing here may depend on time, on state, or on the order of two headers with different names.
 *
 * A part of the way is the same for id, type and source: find() locates a value in the envelope or by the locators of
 * the topic, take() checks and copies it. find_type(), find_id() and find_source() add what is special to each.
 */
#include "model/identity/identity.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/utf8.h"
#include "json/text.h"
#include "model/event/cloudevent.h"
#include "model/identity/identity_rules.h"
#include "model/message/record.h"

struct identity_finder {
	struct json_stream *stream;
	struct buf scratch; /* one decoded JSON string */
	struct json_value values[JSON_POINTER_MAX];
	char event_id[IDENTITY_MAX_BYTES + 1];
	char source[IDENTITY_MAX_BYTES + 1];
	char type[IDENTITY_MAX_BYTES + 1];
};

/* The state of one identity_find(). */
struct search {
	struct identity_finder *finder;
	const struct identity_rules *rules;
	const struct record *record;
	struct identity *out;
	struct err *err;
	struct envelope envelope; /* empty unless the record is a structured CloudEvent */
	bool body_read;           /* finder->values are those of this record */
};

/* A value and where it was found. */
struct found {
	struct bytes text;
	const char *where;
};

enum property { PROPERTY_ID, PROPERTY_TYPE, PROPERTY_SOURCE };
enum problem { PROBLEM_EMPTY, PROBLEM_TOO_LONG, PROBLEM_NUL, PROBLEM_NOT_UTF8 };

static const char *const property_names[] = { "id", "type", "source" };

static const char *const reasons[][4] = {
	{ "id_empty", "id_too_long", "id_nul", "id_not_utf8" },
	{ "type_empty", "type_too_long", "type_nul", "type_not_utf8" },
	{ "source_empty", "source_too_long", "source_nul", "source_not_utf8" },
};

static const char *const problem_words[] = {
	"is empty: send one, or leave it out altogether",
	"is longer than 1,024 bytes: send a shorter one, or locate it elsewhere",
	"holds a NUL: send it without, or locate it elsewhere",
	"is not UTF-8: send text, or locate it elsewhere",
};

int identity_finder_new(struct identity_finder **out, struct err *err)
{
	struct identity_finder *finder = calloc(1, sizeof(*finder));
	int r;

	if (finder == NULL)
		return err_memory(err);
	r = json_stream_new(&finder->stream, err);
	if (r < 0) {
		identity_finder_free(finder);
		return r;
	}
	*out = finder;
	return 0;
}

void identity_finder_free(struct identity_finder *finder)
{
	if (finder == NULL)
		return;
	json_stream_free(finder->stream);
	buf_fini(&finder->scratch);
	free(finder);
}

static int __attribute__((format(printf, 3, 4)))
reject(struct search *search, const char *reason, const char *format, ...)
{
	char *words = search->out->words;
	size_t length;
	va_list args;

	search->out->reject = reason;
	va_start(args, format);
	(void)vsnprintf(words, sizeof(search->out->words), format, args);
	va_end(args);
	/* The words are stored and logged. After a cut they must not end with a part of a character. */
	length = strlen(words);
	while (length > 0 && !utf8_is_valid((struct bytes){ words, length }))
		words[--length] = '\0';
	/* They can quote the name of a topic or locator, which can contain control characters. */
	for (; *words != '\0'; words++) {
		if ((unsigned char)*words < ' ' || *words == 0x7f)
			*words = ' ';
	}
	return IDENTITY_REJECT;
}

static int reject_value(
	struct search *search, enum property property, enum problem problem, const char *where)
{
	return reject(search, reasons[property][problem], "the %s from %.100s %s",
		property_names[property], where, problem_words[problem]);
}

typedef int same_name(const char *a, const char *b);

/* The last header of that name counts. A header with the value null is ignored. */
static struct bytes header_value(const struct record *record, const char *name, same_name *compare)
{
	for (size_t i = record->header_count; i > 0; i--) {
		const struct header *header = &record->headers[i - 1];

		if (header->value.data != NULL && compare(header->name, name) == 0)
			return header->value;
	}
	return (struct bytes){ NULL, 0 };
}

/* Reads the payload at most once for a record, and only if a locator asks for it: most records have their identity in
 * headers. */
static int read_body(struct search *search)
{
	struct identity_finder *finder = search->finder;
	const struct json_search values = {
		.pointers = search->rules->pointers,
		.count = search->rules->pointer_count,
		.values = finder->values,
		.scratch = &finder->scratch,
	};

	if (search->body_read)
		return 0;
	search->body_read = true;
	return json_find(finder->stream, search->record->payload, &values, search->err);
}

/* Decodes a JSON string. JSON_BROKEN: it contains half of a surrogate pair. */
static int text_of_string(struct search *search, struct bytes raw, struct bytes *out)
{
	buf_reset(&search->finder->scratch);
	return json_text_of(raw, &search->finder->scratch, out, search->err);
}

/* The value that a locator refers to; absent if there is none. A number or boolean is taken as written. JSON_BROKEN as
 * above. */
static int locate(struct search *search, const struct locator *locator, struct bytes *out)
{
	const struct json_value *value;
	int r;

	switch (locator->kind) {
	case LOCATE_HEADER:
		*out = header_value(search->record, locator->rest, strcmp);
		return 0;
	case LOCATE_KEY:
		*out = search->record->key;
		return 0;
	case LOCATE_TOPIC:
		*out = bytes_of(search->record->topic);
		return 0;
	case LOCATE_LITERAL:
		*out = bytes_of(locator->rest);
		return 0;
	case LOCATE_JSON:
		break;
	}
	r = read_body(search);
	if (r < 0)
		return r;
	value = &search->finder->values[locator->pointer];
	*out = value->raw;
	if (value->raw.data == NULL || value->kind != JSON_STRING)
		return 0;
	return text_of_string(search, value->raw, out);
}

/* An empty id is a mistake of the producer and is rejected. An empty type or source counts as not found. */
static bool counts(enum property property, struct bytes text)
{
	return text.data != NULL && (property == PROPERTY_ID || text.length > 0);
}

/* The value of the first locator that finds one; absent if none does. */
static int first_of_list(struct search *search, enum property property, const struct locators *list,
	struct found *found)
{
	struct bytes text = { NULL, 0 };

	for (size_t i = 0; i < list->count; i++) {
		int r = locate(search, &list->items[i], &text);

		if (r == JSON_BROKEN)
			return reject_value(
				search, property, PROBLEM_NOT_UTF8, list->items[i].text);
		if (r < 0)
			return r;
		if (counts(property, text)) {
			*found = (struct found){ text, list->items[i].text };
			return 0;
		}
	}
	return 0;
}

/* The attribute of the envelope, or the value of the first locator that finds one. */
static int find(struct search *search, enum property property, struct bytes attribute,
	const struct locators *list, struct found *found)
{
	static const char where[] = "the CloudEvents envelope";
	struct bytes text = { NULL, 0 };
	int r;

	*found = (struct found){ { NULL, 0 }, NULL };
	if (attribute.data == NULL)
		return first_of_list(search, property, list, found);
	r = text_of_string(search, attribute, &text);
	if (r == JSON_BROKEN)
		return reject_value(search, property, PROBLEM_NOT_UTF8, where);
	if (r < 0)
		return r;
	if (!counts(property, text))
		return first_of_list(search, property, list, found);
	*found = (struct found){ text, where };
	return 0;
}

/* Checks the value and copies it to `to`, which has room for IDENTITY_MAX_BYTES. */
static int take(struct search *search, enum property property, const struct found *found, char *to)
{
	struct bytes text = found->text;

	if (text.data == NULL || text.length == 0)
		return reject_value(search, property, PROBLEM_EMPTY, found->where);
	if (text.length > IDENTITY_MAX_BYTES)
		return reject_value(search, property, PROBLEM_TOO_LONG, found->where);
	if (memchr(text.data, '\0', text.length) != NULL)
		return reject_value(search, property, PROBLEM_NUL, found->where);
	if (!utf8_is_valid(text))
		return reject_value(search, property, PROBLEM_NOT_UTF8, found->where);
	memcpy(to, text.data, text.length);
	to[text.length] = '\0';
	return 0;
}

static int read_envelope(struct search *search)
{
	const struct record *record = search->record;
	int r;

	/* A tombstone has no envelope; its headers identify it. */
	if (record->payload.data == NULL ||
		!cloudevent_is_structured(header_value(record, "content-type", strcasecmp)))
		return 0;
	r = cloudevent_read_envelope(
		search->finder->stream, record->payload, &search->envelope, search->err);
	if (r != JSON_BROKEN)
		return r;
	return reject(search, "cloudevent_malformed",
		"content-type says structured CloudEvent, but the payload is no JSON object with "
		"one id, and source and type as strings: correct the producer");
}

/* Without a type the message is still stored; it then only goes to handlers that take any type. */
static int find_type(struct search *search)
{
	struct identity_finder *finder = search->finder;
	struct found found;
	int r = find(search, PROPERTY_TYPE, search->envelope.type, &search->rules->type, &found);

	if (r != 0 || found.text.data == NULL)
		return r;
	search->out->type = finder->type;
	return take(search, PROPERTY_TYPE, &found, finder->type);
}

/* A source that is missing is the topic, so that an id must only be unique within its topic. */
static int find_source(struct search *search)
{
	struct identity_finder *finder = search->finder;
	struct found found;
	int r = find(
		search, PROPERTY_SOURCE, search->envelope.source, &search->rules->source, &found);

	if (r != 0)
		return r;
	if (found.text.data == NULL)
		found = (struct found){ bytes_of(search->record->topic), "the topic" };
	r = take(search, PROPERTY_SOURCE, &found, finder->source);
	search->out->source = finder->source;
	return r;
}

/* The record has no id, so its coordinates are the id. After a topic was deleted and created again, another record has
 * the same offset, and perhaps the same timestamp. So the generation is a part of the id, but not the first one: the ids
 * of the first generation are older than generations. */
static int use_coordinates(struct search *search, struct found *found)
{
	const struct record *record = search->record;
	struct buf *scratch = &search->finder->scratch;

	if (search->rules->missing_id_rejects)
		return reject(search, "id_missing",
			"no id found: send one where topics.%.100s.id says, or set missing_id to "
			"coordinates",
			record->topic);
	buf_reset(scratch);
	identity_add_coordinates(scratch, &(struct message){ .topic = record->topic,
						  .partition = record->partition,
						  .offset = record->offset,
						  .timestamp_ms = record->timestamp_ms,
						  .generation = record->generation });
	if (!buf_ok(scratch))
		return err_memory(search->err);
	*found = (struct found){ { scratch->data, scratch->length }, "the coordinates" };
	return 0;
}

/* If several headers contain an id, they must be equal. Otherwise it is not known which of them identifies the
 * message. */
static int check_id_headers(struct search *search)
{
	const struct locators *list = &search->rules->id;
	struct found first = { { NULL, 0 }, "the CloudEvents envelope" };

	if (search->envelope.id.data != NULL)
		first.text = bytes_of(search->finder->event_id);
	for (size_t i = 0; i < list->count; i++) {
		struct bytes text = { NULL, 0 };

		if (list->items[i].kind == LOCATE_HEADER)
			text = header_value(search->record, list->items[i].rest, strcmp);
		if (text.data == NULL)
			continue;
		if (text.data == NULL || text.length == 0)
			return reject_value(
				search, PROPERTY_ID, PROBLEM_EMPTY, list->items[i].text);
		if (first.text.data == NULL)
			first = (struct found){ text, list->items[i].text };
		else if (!bytes_equal(first.text, text))
			return reject(search, "id_conflict",
				"%.80s and %.80s hold different ids: send one, or take the wrong "
				"one out of the topic's id list",
				first.where, list->items[i].text);
	}
	return 0;
}

/* The conflict of headers is checked last: an id that is empty or too long has its own reason. */
static int find_id(struct search *search)
{
	struct identity_finder *finder = search->finder;
	struct found found;
	int r = find(search, PROPERTY_ID, search->envelope.id, &search->rules->id, &found);

	if (r == 0 && found.text.data == NULL)
		r = use_coordinates(search, &found);
	if (r == 0)
		r = take(search, PROPERTY_ID, &found, finder->event_id);
	search->out->event_id = finder->event_id;
	return r == 0 ? check_id_headers(search) : r;
}

int identity_find(struct identity_finder *finder, const struct identity_rules *rules,
	const struct record *record, struct identity *out, struct err *err)
{
	struct search search = {
		.finder = finder, .rules = rules, .record = record, .out = out, .err = err
	};
	int r;

	out->event_id = NULL;
	out->source = NULL;
	out->type = NULL;
	out->reject = NULL;
	out->words[0] = '\0';
	r = read_envelope(&search);
	if (r == 0)
		r = find_type(&search);
	if (r != 0)
		return r;
	if (!identity_rules_accept(rules, out->type == NULL ? "" : out->type))
		return IDENTITY_SKIP;
	r = find_id(&search);
	return r == 0 ? find_source(&search) : r;
}

void identity_add_coordinates(struct buf *out, const struct message *message)
{
	buf_addf(out, "%s/%d/%lld@%lld", message->topic, (int)message->partition,
		(long long)message->offset, (long long)message->timestamp_ms);
	if (message->generation > 1)
		buf_addf(out, "#%d", (int)message->generation);
}

bool identity_is_of_coordinates(const struct message *message)
{
	struct buf id = BUF_INIT;
	bool same;

	identity_add_coordinates(&id, message);
	same = buf_ok(&id) && strcmp(buf_str(&id), message->event_id) == 0;
	buf_fini(&id);
	return same;
}
