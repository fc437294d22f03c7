/* See event_members.h. A table with one row for each member: its name and the function that adds its value. */
#include "model/event/event_members.h"

#include <string.h>

#include "base/clock.h"
#include "base/digits.h"
#include "base/utf8.h"
#include "json/text.h"

void event_member_begin(struct rendering *rendering, struct bytes name)
{
	struct buf *out = rendering->out;

	if (buf_ok(out) && out->data[out->length - 1] != '{')
		buf_add_char(out, ',');
	buf_add_char(out, '"');
	buf_add(out, name.data, name.length);
	buf_add(out, "\":", 2);
}

static void add_raw(struct rendering *rendering, struct bytes name, struct bytes raw)
{
	event_member_begin(rendering, name);
	buf_add(rendering->out, raw.data, raw.length);
}

static void add_string(struct rendering *rendering, struct bytes name, struct bytes text)
{
	event_member_begin(rendering, name);
	json_add_string(rendering->out, text);
}

static void add_base64(struct rendering *rendering, struct bytes name, struct bytes bytes)
{
	event_member_begin(rendering, name);
	buf_add_char(rendering->out, '"');
	base64_add(rendering->out, bytes);
	buf_add_char(rendering->out, '"');
}

/* False for a missing value and for "". */
static bool has_value(struct bytes raw)
{
	return raw.data != NULL && raw.length > 2;
}

/* The value of the ce_ header of that name; absent if there is none or it is empty. */
static struct bytes attribute_value(const struct rendering *rendering, struct bytes name)
{
	const struct attribute *attribute = event_headers_attribute(rendering->headers, name);

	if (attribute == NULL || !has_value(attribute->value))
		return (struct bytes){ NULL, 0 };
	return attribute->value;
}

static void add_specversion(struct rendering *rendering, struct bytes name)
{
	struct bytes value = attribute_value(rendering, name);

	add_raw(rendering, name, value.data == NULL ? BYTES_LITERAL("\"1.0\"") : value);
}

static void add_id(struct rendering *rendering, struct bytes name)
{
	add_string(rendering, name, bytes_of(rendering->message->event_id));
}

static void add_source(struct rendering *rendering, struct bytes name)
{
	add_string(rendering, name, bytes_of(rendering->message->source));
}

/* CloudEvents requires a type. A message without one has its topic as type. */
static void add_type(struct rendering *rendering, struct bytes name)
{
	const struct message *message = rendering->message;

	add_string(
		rendering, name, bytes_of(message->type == NULL ? message->topic : message->type));
}

static void add_time(struct rendering *rendering, struct bytes name)
{
	struct bytes value = attribute_value(rendering, name);
	char when[32];

	if (value.data != NULL) {
		add_raw(rendering, name, value);
	} else if (rendering->message->timestamp_ms >= 0) {
		clock_format_ms(rendering->message->timestamp_ms, when);
		add_string(rendering, name, bytes_of(when));
	}
}

static void add_datacontenttype(struct rendering *rendering, struct bytes name)
{
	struct bytes value = rendering->headers->content_type;

	if (!has_value(value))
		value = attribute_value(rendering, name);
	if (value.data != NULL)
		add_raw(rendering, name, value);
	else if (rendering->data_is_json)
		add_string(rendering, name, BYTES_LITERAL("application/json"));
}

static void add_partitionkey(struct rendering *rendering, struct bytes name)
{
	struct bytes value = attribute_value(rendering, name);
	struct bytes key = rendering->message->key;

	if (value.data != NULL)
		add_raw(rendering, name, value);
	else if (key.data != NULL && utf8_is_valid(key))
		add_string(rendering, name, key);
	else if (key.data != NULL)
		add_base64(rendering, BYTES_LITERAL("partitionkeybase64"), key);
}

static void add_kafkatopic(struct rendering *rendering, struct bytes name)
{
	add_string(rendering, name, bytes_of(rendering->message->topic));
}

static void add_number(struct buf *out, int64_t number)
{
	char digits[DIGITS_MAX];

	buf_add(out, digits, (size_t)(digits_put(digits, number) - digits));
}

static void add_kafkapartition(struct rendering *rendering, struct bytes name)
{
	event_member_begin(rendering, name);
	add_number(rendering->out, rendering->message->partition);
}

static void add_kafkaoffset(struct rendering *rendering, struct bytes name)
{
	event_member_begin(rendering, name);
	buf_add_char(rendering->out, '"');
	add_number(rendering->out, rendering->message->offset);
	buf_add_char(rendering->out, '"');
}

static void add_trace(struct rendering *rendering, struct bytes name, struct bytes header)
{
	struct bytes value = attribute_value(rendering, name);

	if (value.data == NULL)
		value = header;
	if (has_value(value))
		add_raw(rendering, name, value);
}

static void add_traceparent(struct rendering *rendering, struct bytes name)
{
	add_trace(rendering, name, rendering->headers->traceparent);
}

static void add_tracestate(struct rendering *rendering, struct bytes name)
{
	add_trace(rendering, name, rendering->headers->tracestate);
}

static void add_data(struct rendering *rendering, struct bytes name)
{
	struct bytes payload = rendering->message->payload;

	if (rendering->data_is_json)
		add_raw(rendering, name, payload);
	else if (payload.data != NULL)
		add_base64(rendering, BYTES_LITERAL("data_base64"), payload);
}

static void add_extensions(struct rendering *rendering, struct bytes name);

#define NAME(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

/* In the order of enum event_member. A member without a function is added by the function of another row, or copied
 * from an envelope. */
static const struct {
	struct bytes name;
	void (*add)(struct rendering *rendering, struct bytes name);
} members[MEMBER_COUNT] = {
	{ NAME("specversion"), add_specversion },
	{ NAME("id"), add_id },
	{ NAME("source"), add_source },
	{ NAME("type"), add_type },
	{ NAME(""), add_extensions },
	{ NAME("time"), add_time },
	{ NAME("datacontenttype"), add_datacontenttype },
	{ NAME("partitionkey"), add_partitionkey },
	{ NAME("partitionkeybase64"), NULL },
	{ NAME("kafkatopic"), add_kafkatopic },
	{ NAME("kafkapartition"), add_kafkapartition },
	{ NAME("kafkaoffset"), add_kafkaoffset },
	{ NAME("traceparent"), add_traceparent },
	{ NAME("tracestate"), add_tracestate },
	{ NAME("data"), add_data },
	{ NAME("data_base64"), NULL },
};

enum event_member event_member_of(struct bytes name)
{
	for (int i = 0; i < MEMBER_COUNT; i++) {
		if (name.length > 0 && bytes_equal(name, members[i].name))
			return (enum event_member)i;
	}
	return MEMBER_EXTENSIONS;
}

static void add_extensions(struct rendering *rendering, struct bytes name)
{
	const struct event_headers *headers = rendering->headers;

	(void)name;
	for (size_t i = 0; i < headers->count; i++) {
		const struct attribute *attribute = &headers->attributes[i];

		if (attribute->used || event_member_of(attribute->name) != MEMBER_EXTENSIONS)
			continue;
		event_member_begin(rendering, attribute->name);
		buf_add(rendering->out, attribute->value.data, attribute->value.length);
	}
}

void event_members_add(struct rendering *rendering)
{
	for (int i = 0; i < MEMBER_COUNT; i++) {
		if (!rendering->present[i] && members[i].add != NULL)
			members[i].add(rendering, members[i].name);
	}
}
