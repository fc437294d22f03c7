/* See event_headers.h. One pass over the header pairs sorts them. */
#include "model/event/event_headers.h"

#include <string.h>

#include "model/event/cloudevent.h"

/* The pair being read. */
struct pair {
	const char *start;
	int items;
	enum json_kind kinds[2];
	struct bytes raw[2]; /* name and value */
};

struct reading {
	struct event_headers *headers;
	struct pair pair;
};

void event_headers_fini(struct event_headers *headers)
{
	buf_fini(&headers->rest);
}

static struct bytes unquoted(struct bytes raw)
{
	return (struct bytes){ (const char *)raw.data + 1, raw.length - 2 };
}

struct attribute *event_headers_attribute(struct event_headers *headers, struct bytes name)
{
	for (size_t i = 0; i < headers->count; i++) {
		if (bytes_equal(headers->attributes[i].name, name))
			return &headers->attributes[i];
	}
	return NULL;
}

/* Attributes inboxd sets itself, and members that are no attributes. */
static bool is_reserved(struct bytes name)
{
	static const char *const reserved[] = { "data", "kafkatopic", "kafkapartition",
		"kafkaoffset", "partitionkeybase64" };

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (bytes_equal(name, bytes_of(reserved[i])))
			return true;
	}
	return false;
}

static bool is_attribute_name(struct bytes name)
{
	const char *text = name.data;

	for (size_t i = 0; i < name.length; i++) {
		if ((text[i] < 'a' || text[i] > 'z') && (text[i] < '0' || text[i] > '9'))
			return false;
	}
	return name.length > 0 && !is_reserved(name);
}

/* True when the header has become an attribute. */
static bool take_attribute(struct event_headers *headers, struct bytes header, struct bytes value)
{
	struct bytes name = { (const char *)header.data + 3, header.length - 3 };
	struct attribute *attribute;

	if (!is_attribute_name(name))
		return false;
	attribute = event_headers_attribute(headers, name);
	if (attribute == NULL) {
		if (headers->count == EVENT_MAX_ATTRIBUTES)
			return false;
		attribute = &headers->attributes[headers->count++];
		attribute->name = name;
		attribute->used = false;
	}
	attribute->value = value;
	return true;
}

/* Remembers headers that stay headers and also supply a value for the event. */
static void note(struct event_headers *headers, struct bytes name, struct bytes value)
{
	if (cloudevent_is_content_type(name))
		headers->content_type = value;
	else if (bytes_equal(name, bytes_of("traceparent")))
		headers->traceparent = value;
	else if (bytes_equal(name, bytes_of("tracestate")))
		headers->tracestate = value;
}

static void end_pair(struct event_headers *headers, const struct pair *pair, const char *end)
{
	struct bytes name;
	struct bytes value = { NULL, 0 };

	if (pair->items != 2)
		return;
	name = pair->kinds[0] == JSON_STRING ? unquoted(pair->raw[0]) : bytes_of("");
	if (pair->kinds[1] == JSON_STRING)
		value = pair->raw[1];
	if (value.data != NULL && name.length > 3 && memcmp(name.data, "ce_", 3) == 0 &&
		take_attribute(headers, name, value))
		return;
	if (pair->kinds[1] !=
		JSON_NULL) /* as in identity.c: a header with the value null is ignored */
		note(headers, name, value);
	if (headers->rest.length > 1)
		buf_add_char(&headers->rest, ',');
	buf_add(&headers->rest, pair->start, (size_t)(end - pair->start));
}

static bool is_end(enum json_kind kind)
{
	return kind == JSON_ARRAY_END || kind == JSON_OBJECT_END;
}

static void add_item(struct pair *pair, const struct json_token *token)
{
	if (pair->items < 2) {
		pair->kinds[pair->items] = token->kind;
		pair->raw[pair->items] = token->raw;
	}
	pair->items++;
}

static bool visit(void *arg, const struct json_token *token)
{
	struct reading *reading = arg;
	const char *at = token->raw.data;

	if (token->depth == 0)
		return token->kind == JSON_ARRAY || token->kind == JSON_ARRAY_END;
	if (token->depth == 1 && token->kind == JSON_ARRAY)
		reading->pair = (struct pair){ .start = at };
	else if (token->depth == 1 && token->kind == JSON_ARRAY_END)
		end_pair(reading->headers, &reading->pair, at + 1);
	else if (token->depth == 2 && !is_end(token->kind))
		add_item(&reading->pair, token);
	return true;
}

static void clear(struct event_headers *headers)
{
	headers->count = 0;
	headers->content_type = (struct bytes){ NULL, 0 };
	headers->traceparent = headers->content_type;
	headers->tracestate = headers->content_type;
	buf_reset(&headers->rest);
	buf_add_char(&headers->rest, '[');
}

int event_headers_read(struct event_headers *headers, struct json_stream *stream, struct bytes text,
	struct err *err)
{
	struct reading reading = { .headers = headers };
	int r;

	clear(headers);
	r = json_stream_read(stream, text, visit, &reading, err);
	if (r < 0)
		return r;
	if (r != 0)
		clear(headers);
	buf_add_char(&headers->rest, ']');
	return buf_ok(&headers->rest) ? 0 : err_memory(err);
}
