/*
 * The events of an answer. Each is written as JSON when the program adds it, and stays with the delivery until its
 * verdict. What could not be sent is refused here, because the program would not learn of it later.
 */
#include <string.h>

#include "base/text/utf8.h"
#include "client/handler.h"
#include "json/text.h"

enum { EVENTS_MAX = 1000 };

static bool is_text(const char *text)
{
	return text == NULL || utf8_is_valid(bytes_of(text));
}

/* What is wrong with the event; NULL = nothing. */
static const char *fault_of(const struct inbox_event *event)
{
	if (event->topic == NULL && event->aggregate == NULL)
		return "it has no topic and no aggregate";
	if (event->type == NULL)
		return "it has no type";
	if (!is_text(event->topic) || !is_text(event->aggregate) || !is_text(event->type) ||
		!is_text(event->key) || !is_text(event->id) || !is_text(event->source) ||
		!is_text(event->subject))
		return "a text is not UTF-8";
	for (size_t i = 0; i < event->header_count; i++) {
		if (event->headers[i].name == NULL || !is_text(event->headers[i].name))
			return "the name of a header is missing or not UTF-8";
	}
	return NULL;
}

static void add_text(struct buf *out, const char *name, const char *text)
{
	if (text == NULL)
		return;
	buf_addf(out, ",\"%s\":", name);
	json_add_string(out, bytes_of(text));
}

static void add_base64(struct buf *out, struct inbox_bytes bytes)
{
	buf_add_char(out, '"');
	base64_add(out, (struct bytes){ bytes.data, bytes.length });
	buf_add_char(out, '"');
}

static void add_data(struct buf *out, const struct inbox_event *event)
{
	if (event->data.data == NULL)
		return;
	if (event->data_is_json) {
		buf_add_str(out, ",\"data\":");
		buf_add(out, event->data.data, event->data.length);
	} else {
		buf_add_str(out, ",\"data_base64\":");
		add_base64(out, event->data);
	}
}

/* As pairs, which keep their order and may repeat a name. */
static void add_headers(struct buf *out, const struct inbox_event *event)
{
	if (event->header_count == 0)
		return;
	buf_add_str(out, ",\"headers\":");
	for (size_t i = 0; i < event->header_count; i++) {
		const struct inbox_bytes value = event->headers[i].value;
		const struct bytes text = { value.data, value.length };

		buf_add_str(out, i == 0 ? "[[" : ",[");
		json_add_string(out, bytes_of(event->headers[i].name));
		buf_add_char(out, ',');
		if (value.data == NULL) {
			buf_add_str(out, "null");
		} else if (utf8_is_valid(text) && memchr(text.data, '\0', text.length) == NULL) {
			json_add_string(out, text);
		} else {
			buf_add_str(out, "{\"base64\":");
			add_base64(out, value);
			buf_add_char(out, '}');
		}
		buf_add_char(out, ']');
	}
	buf_add_char(out, ']');
}

static void add_event(struct buf *out, const struct inbox_event *event)
{
	buf_add_str(out, out->length == 0 ? "{\"type\":" : ",{\"type\":");
	json_add_string(out, bytes_of(event->type));
	add_text(out, "topic", event->topic);
	add_text(out, "aggregate", event->aggregate);
	add_text(out, "key", event->key);
	add_data(out, event);
	add_headers(out, event);
	add_text(out, "id", event->id);
	add_text(out, "source", event->source);
	add_text(out, "subject", event->subject);
	buf_add_char(out, '}');
}

static int refuse(const struct inbox_delivery *delivery, const char *why)
{
	return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
		"the event is not added to the answer: %s", why);
}

static int no_memory(const struct inbox_delivery *delivery)
{
	return ih_fail(delivery->handler, INBOX_ERROR_MEMORY,
		"out of memory for an event: the delivery is still open");
}

int inbox_delivery_emit(struct inbox_delivery *delivery, const struct inbox_event *event)
{
	struct buf *events = &delivery->events;
	const size_t before = events->length;
	const char *fault = fault_of(event);
	int r = 0;

	if (fault != NULL)
		return refuse(delivery, fault);
	if (delivery->event_count == EVENTS_MAX)
		return refuse(delivery, "an answer has at most 1000");
	if (event->data_is_json && event->data.data != NULL)
		r = ih_check_json(event->data.data, event->data.length);
	if (r > 0)
		return refuse(delivery, "its data is not one JSON value");
	if (r < 0 || event->data.length > IH_MAX_LINE)
		return r < 0 ? no_memory(delivery) : refuse(delivery, "it is longer than a line");
	add_event(events, event);
	if (!ih_is_whole(events, before))
		return no_memory(delivery);
	if (events->length > ih_room(delivery)) {
		buf_cut(events, before);
		return refuse(delivery, "the answer would be longer than half a line");
	}
	delivery->event_count++;
	return 0;
}

/* An array of events while it is read. */
struct event_array {
	const char *start; /* behind the opening bracket */
	const char *end;   /* the closing one */
	size_t count;
};

/* False: it is not an array of objects. */
static bool take_event(void *arg, const struct json_token *token)
{
	struct event_array *array = arg;

	if (token->depth > 1)
		return true;
	if (token->depth == 1) {
		array->count += token->kind == JSON_OBJECT;
		return token->kind == JSON_OBJECT || token->kind == JSON_OBJECT_END;
	}
	if (token->kind == JSON_ARRAY)
		array->start = (const char *)token->raw.data + 1;
	else
		array->end = token->raw.data;
	return token->kind == JSON_ARRAY || token->kind == JSON_ARRAY_END;
}

int inbox_delivery_emit_json(struct inbox_delivery *delivery, const char *json, size_t length)
{
	struct buf *events = &delivery->events;
	const size_t before = events->length;
	struct event_array array = { .count = 0 };
	int r = length > ih_room(delivery) ? IH_NOT_JSON
					   : ih_read_json(json, length, take_event, &array);

	if (r < 0)
		return no_memory(delivery);
	if (r > 0)
		return refuse(
			delivery, "it is not a JSON array of objects, or longer than half a line");
	if (delivery->event_count + array.count > EVENTS_MAX)
		return refuse(delivery, "an answer has at most 1000");
	if (array.count == 0)
		return 0;
	if (before > 0)
		buf_add_char(events, ',');
	buf_add(events, array.start, (size_t)(array.end - array.start));
	if (!ih_is_whole(events, before))
		return no_memory(delivery);
	if (events->length > ih_room(delivery)) {
		buf_cut(events, before);
		return refuse(delivery, "the answer would be longer than half a line");
	}
	delivery->event_count += array.count;
	return 0;
}
