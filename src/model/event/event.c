/*
 * Renders the CloudEvent of a message in three steps: sort the stored headers, copy the members of a structured
 * envelope, add the members that are missing. The third step is the same for binary and structured mode. This runs for
 * every delivery, so every piece is copied once, from the message to `out`.
 *
 * The result must agree with identity.c about what a record is: both recognise an envelope with cloudevent.c, and both
 * ignore a header whose value is null. Nothing of the record may get lost: a header that does not become an attribute
 * stays a header.
 */
#include "model/event/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "json/members.h"
#include "json/text.h"
#include "model/event/cloudevent.h"

/* Further ce_ headers stay headers. The limit bounds the time to look up a name. */
#define MAX_ATTRIBUTES 64

struct attribute {
	struct bytes name;  /* without ce_ */
	struct bytes value; /* JSON string as written, as are those below */
	bool used;          /* it is in the event already */
};

/* The headers of the message. All texts are borrowed from its stored JSON. */
struct headers {
	struct attribute attributes[MAX_ATTRIBUTES];
	size_t count;
	struct bytes content_type; /* absent = none, as the next two */
	struct bytes traceparent;
	struct bytes tracestate;
	/* JSON array of the headers that stay, without the bracket at its end */
	struct buf rest;
};

struct event_renderer {
	struct json_stream *stream;
	struct headers headers;
};

enum event_member {
	MEMBER_SPECVERSION,
	MEMBER_ID,
	MEMBER_SOURCE,
	MEMBER_TYPE,
	MEMBER_EXTENSIONS, /* all other attributes */
	MEMBER_TIME,
	MEMBER_DATACONTENTTYPE,
	MEMBER_PARTITIONKEY,
	MEMBER_PARTITIONKEYBASE64,
	MEMBER_KAFKATOPIC,
	MEMBER_KAFKAPARTITION,
	MEMBER_KAFKAOFFSET,
	MEMBER_TRACEPARENT,
	MEMBER_TRACESTATE,
	MEMBER_DATA,
	MEMBER_DATA_BASE64,
	MEMBER_COUNT
};

/* The event that is being rendered. */
struct rendering {
	const struct message *message;
	struct headers *headers;
	struct buf *out;
	bool present[MEMBER_COUNT]; /* the member is written already, or must not be written */
	bool data_is_json;
};

static struct bytes unquoted(struct bytes raw)
{
	return (struct bytes){ (const char *)raw.data + 1, raw.length - 2 };
}

/* False for a missing value and for "". */
static bool has_value(struct bytes raw)
{
	return raw.data != NULL && raw.length > 2;
}

/* --- Headers ---------------------------------------------------------------------------------------- */

/*
 * A ce_NAME header becomes the attribute NAME if NAME matches [a-z0-9]+, the value is text that CloudEvents allows for this
 * attribute, and inboxd does not set it itself. Every other header stays a header. Of a repeated ce_ header the last value
 * counts.
 */

/* The header pair that is being read: ["name", value]. */
struct pair {
	const char *start;
	int items;
	enum json_kind kinds[2];
	struct bytes raw[2]; /* name and value */
};

struct reading {
	struct headers *headers;
	struct pair pair;
};

static struct attribute *find_attribute(struct headers *headers, struct bytes name)
{
	for (size_t i = 0; i < headers->count; i++) {
		if (bytes_equal(headers->attributes[i].name, name))
			return &headers->attributes[i];
	}
	return NULL;
}

static bool is_attribute_name(struct bytes name)
{
	/* Attributes that inboxd sets itself, and members that are no attributes. */
	static const char *const reserved[] = { "data", "kafkatopic", "kafkapartition",
		"kafkaoffset", "partitionkeybase64" };
	const char *text = name.data;

	for (size_t i = 0; i < name.length; i++) {
		if ((text[i] < 'a' || text[i] > 'z') && (text[i] < '0' || text[i] > '9'))
			return false;
	}
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (bytes_equal(name, bytes_of(reserved[i])))
			return false;
	}
	return name.length > 0;
}

/* True when the header has become an attribute. */
static bool take_attribute(struct headers *headers, struct bytes header, struct bytes value)
{
	struct bytes name = { (const char *)header.data + 3, header.length - 3 };
	struct attribute *attribute;

	if (!is_attribute_name(name) || (has_value(value) && !cloudevent_is_valid(name, value)))
		return false;
	attribute = find_attribute(headers, name);
	if (attribute == NULL) {
		if (headers->count == MAX_ATTRIBUTES)
			return false;
		attribute = &headers->attributes[headers->count++];
		attribute->name = name;
		attribute->used = false;
	}
	attribute->value = value;
	return true;
}

/* Sorts a complete pair. Some headers stay headers and supply a value for the event, too. */
static void end_pair(struct headers *headers, const struct pair *pair, const char *end)
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
	/* As in identity.c: a header with the value null is ignored, so an earlier one of that name counts. */
	if (pair->kinds[1] != JSON_NULL) {
		if (cloudevent_is_content_type(name))
			headers->content_type = value;
		else if (bytes_equal(name, bytes_of("traceparent")))
			headers->traceparent = value;
		else if (bytes_equal(name, bytes_of("tracestate")))
			headers->tracestate = value;
	}
	if (headers->rest.length > 1)
		buf_add_char(&headers->rest, ',');
	buf_add(&headers->rest, pair->start, (size_t)(end - pair->start));
}

/* The array of headers has depth 0, a pair depth 1, its name and value depth 2. A value that is not text is an object,
 * {"base64":"…"}, whose members are deeper and are skipped. */
static bool visit_header_token(void *arg, const struct json_token *token)
{
	struct reading *reading = arg;
	struct pair *pair = &reading->pair;
	const char *at = token->raw.data;
	bool end = token->kind == JSON_ARRAY_END || token->kind == JSON_OBJECT_END;

	if (token->depth == 0)
		return token->kind == JSON_ARRAY || token->kind == JSON_ARRAY_END;
	if (token->depth == 1 && token->kind == JSON_ARRAY) {
		*pair = (struct pair){ .start = at };
	} else if (token->depth == 1 && token->kind == JSON_ARRAY_END) {
		end_pair(reading->headers, pair, at + 1);
	} else if (token->depth == 2 && !end) {
		if (pair->items < 2) {
			pair->kinds[pair->items] = token->kind;
			pair->raw[pair->items] = token->raw;
		}
		pair->items++;
	}
	return true;
}

static void clear_headers(struct headers *headers)
{
	headers->count = 0;
	headers->content_type = (struct bytes){ NULL, 0 };
	headers->traceparent = headers->content_type;
	headers->tracestate = headers->content_type;
	buf_reset(&headers->rest);
	buf_add_char(&headers->rest, '[');
}

/* Reads the JSON of the table, as headers_encode() wrote it or as jsonb prints it. Other JSON counts as no headers: an
 * operator can have changed the row, and the message must still be delivered. FAULT_MEMORY. */
static int read_headers(
	struct headers *headers, struct json_stream *stream, struct bytes text, struct err *err)
{
	struct reading reading = { .headers = headers };
	int r;

	clear_headers(headers);
	r = json_stream_read(stream, text, visit_header_token, &reading, err);
	if (r < 0)
		return r;
	if (r != 0)
		clear_headers(headers);
	return buf_ok(&headers->rest) ? 0 : err_memory(err);
}

/* --- Members ---------------------------------------------------------------------------------------- */

/* Appends `"name":`, with a comma before it unless it is the object's first. */
static void begin_member(struct rendering *rendering, struct bytes name)
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
	begin_member(rendering, name);
	buf_add(rendering->out, raw.data, raw.length);
}

static void add_string(struct rendering *rendering, struct bytes name, struct bytes text)
{
	begin_member(rendering, name);
	json_add_string(rendering->out, text);
}

static void add_base64(struct rendering *rendering, struct bytes name, struct bytes bytes)
{
	begin_member(rendering, name);
	buf_add_char(rendering->out, '"');
	base64_add(rendering->out, bytes);
	buf_add_char(rendering->out, '"');
}

/* The value of the ce_ header of that name; absent if there is none or it is empty. */
static struct bytes attribute_value(const struct rendering *rendering, struct bytes name)
{
	const struct attribute *attribute = find_attribute(rendering->headers, name);

	if (attribute == NULL || !has_value(attribute->value))
		return (struct bytes){ NULL, 0 };
	return attribute->value;
}

/* Adds the value of the ce_ header of that name, else the other value, if there is one. */
static void add_attribute_or(struct rendering *rendering, struct bytes name, struct bytes other)
{
	struct bytes value = attribute_value(rendering, name);

	if (value.data == NULL)
		value = other;
	if (has_value(value))
		add_raw(rendering, name, value);
}

#define NAME(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

static const struct bytes names[MEMBER_COUNT] = {
	[MEMBER_SPECVERSION] = NAME("specversion"),
	[MEMBER_ID] = NAME("id"),
	[MEMBER_SOURCE] = NAME("source"),
	[MEMBER_TYPE] = NAME("type"),
	[MEMBER_EXTENSIONS] = NAME(""),
	[MEMBER_TIME] = NAME("time"),
	[MEMBER_DATACONTENTTYPE] = NAME("datacontenttype"),
	[MEMBER_PARTITIONKEY] = NAME("partitionkey"),
	[MEMBER_PARTITIONKEYBASE64] = NAME("partitionkeybase64"),
	[MEMBER_KAFKATOPIC] = NAME("kafkatopic"),
	[MEMBER_KAFKAPARTITION] = NAME("kafkapartition"),
	[MEMBER_KAFKAOFFSET] = NAME("kafkaoffset"),
	[MEMBER_TRACEPARENT] = NAME("traceparent"),
	[MEMBER_TRACESTATE] = NAME("tracestate"),
	[MEMBER_DATA] = NAME("data"),
	[MEMBER_DATA_BASE64] = NAME("data_base64"),
};

/* MEMBER_EXTENSIONS for a name that is not in the table. */
static enum event_member event_member_of(struct bytes name)
{
	for (int i = 0; i < MEMBER_COUNT; i++) {
		if (name.length > 0 && bytes_equal(name, names[i]))
			return (enum event_member)i;
	}
	return MEMBER_EXTENSIONS;
}

static void add_extensions(struct rendering *rendering)
{
	const struct headers *headers = rendering->headers;

	for (size_t i = 0; i < headers->count; i++) {
		const struct attribute *attribute = &headers->attributes[i];

		if (!attribute->used && event_member_of(attribute->name) == MEMBER_EXTENSIONS)
			add_raw(rendering, attribute->name, attribute->value);
	}
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

/* The header content-type describes the payload as it is, so it comes before ce_datacontenttype. */
static void add_datacontenttype(struct rendering *rendering, struct bytes name)
{
	struct bytes value = rendering->headers->content_type;

	if (!has_value(value) || !cloudevent_is_valid(name, value))
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
		add_base64(rendering, names[MEMBER_PARTITIONKEYBASE64], key);
}

static void add_data(struct rendering *rendering, struct bytes name)
{
	struct bytes payload = rendering->message->payload;

	if (rendering->data_is_json)
		add_raw(rendering, name, payload);
	else if (payload.data != NULL)
		add_base64(rendering, names[MEMBER_DATA_BASE64], payload);
}

static struct bytes digits_of(char digits[DIGITS_MAX], int64_t number)
{
	return (struct bytes){ digits, (size_t)(digits_put(digits, number) - digits) };
}

/* Where the value of each member comes from. A member without a value is left out. */
static void add_member(struct rendering *rendering, enum event_member member)
{
	const struct message *message = rendering->message;
	struct bytes name = names[member];
	char digits[DIGITS_MAX];

	switch (member) {
	case MEMBER_SPECVERSION:
		add_attribute_or(rendering, name, BYTES_LITERAL("\"1.0\""));
		break;
	case MEMBER_ID:
		add_string(rendering, name, bytes_of(message->event_id));
		break;
	case MEMBER_SOURCE:
		add_string(rendering, name, bytes_of(message->source));
		break;
	case MEMBER_TYPE: /* CloudEvents requires one; a message without has its topic as type */
		add_string(rendering, name,
			bytes_of(message->type == NULL ? message->topic : message->type));
		break;
	case MEMBER_EXTENSIONS:
		add_extensions(rendering);
		break;
	case MEMBER_TIME:
		add_time(rendering, name);
		break;
	case MEMBER_DATACONTENTTYPE:
		add_datacontenttype(rendering, name);
		break;
	case MEMBER_PARTITIONKEY:
		add_partitionkey(rendering, name);
		break;
	case MEMBER_KAFKATOPIC:
		add_string(rendering, name, bytes_of(message->topic));
		break;
	case MEMBER_KAFKAPARTITION:
		add_raw(rendering, name, digits_of(digits, message->partition));
		break;
	case MEMBER_KAFKAOFFSET: /* a string: an Integer of CloudEvents has 32 bits */
		add_string(rendering, name, digits_of(digits, message->offset));
		break;
	case MEMBER_TRACEPARENT:
		add_attribute_or(rendering, name, rendering->headers->traceparent);
		break;
	case MEMBER_TRACESTATE:
		add_attribute_or(rendering, name, rendering->headers->tracestate);
		break;
	case MEMBER_DATA:
		add_data(rendering, name);
		break;
	case MEMBER_PARTITIONKEYBASE64: /* written by the function of another member */
	case MEMBER_DATA_BASE64:
	case MEMBER_COUNT:
		break;
	}
}

/* --- The event -------------------------------------------------------------------------------------- */

/* An attribute of the envelope that CloudEvents does not allow becomes a header, as it would be in binary mode. */
static void keep_as_header(struct rendering *rendering, const struct json_member *from)
{
	struct buf *rest = &rendering->headers->rest;

	buf_add_str(rest, rest->length > 1 ? ",[\"ce_" : "[\"ce_");
	buf_add(rest, from->name.data, from->name.length);
	buf_add_str(rest, "\",");
	if (from->kind == JSON_STRING)
		buf_add(rest, from->raw.data, from->raw.length);
	else
		json_add_string(rest, from->raw);
	buf_add_char(rest, ']');
}

static bool is_right(const struct json_member *from)
{
	static const struct bytes none = { "\"\"", 2 };

	return from->kind == JSON_NULL ||
	       cloudevent_is_valid(from->name, from->kind == JSON_STRING ? from->raw : none);
}

/* Copies a member of the envelope. Of a member that CloudEvents or inboxd defines only the first one is copied. An
 * extension that is given twice is copied twice, because its meaning is the producer's. */
static bool copy_member(void *arg, const struct json_member *from)
{
	struct rendering *rendering = arg;
	enum event_member member = event_member_of(from->name);
	struct attribute *attribute;

	if (memchr(from->name.data, '\\', from->name.length) != NULL)
		return false; /* cloudevent_read_envelope() refuses it, too */
	/* The envelope cannot set the coordinates: inboxd does. */
	if (member == MEMBER_KAFKATOPIC || member == MEMBER_KAFKAPARTITION ||
		member == MEMBER_KAFKAOFFSET || rendering->present[member])
		return true;
	if (!is_right(from)) {
		keep_as_header(rendering, from);
		return true;
	}
	if (member == MEMBER_EXTENSIONS) {
		attribute = find_attribute(rendering->headers, from->name);
		if (attribute != NULL)
			attribute->used = true;
	} else if (from->kind == JSON_NULL && member != MEMBER_DATA) {
		return true; /* null means "not set" (CloudEvents JSON 1.0.2, section 2.3) */
	} else {
		rendering->present[member] = true;
	}
	begin_member(rendering, from->name);
	buf_add(rendering->out, from->raw.data, from->raw.length);
	return true;
}

/* 0: the payload is an envelope and was copied to `out`. JSON_BROKEN: it is not, and nothing has changed. */
static int copy_envelope(struct rendering *rendering, struct json_stream *stream, struct err *err)
{
	struct bytes payload = rendering->message->payload;
	struct bytes type = rendering->headers->content_type;
	size_t start = rendering->out->length;
	size_t headers = rendering->headers->rest.length;
	int r;

	if (payload.data == NULL || type.data == NULL || !cloudevent_is_structured(unquoted(type)))
		return JSON_BROKEN;
	r = json_read_members(stream, payload, copy_member, rendering, err);
	if (r != 0) {
		rendering->out->length = start;
		buf_cut(&rendering->headers->rest, headers);
		memset(rendering->present, 0, sizeof(rendering->present));
		for (size_t i = 0; i < rendering->headers->count; i++)
			rendering->headers->attributes[i].used = false;
		return r < 0 ? r : JSON_BROKEN;
	}
	rendering->present[MEMBER_PARTITIONKEY] |= rendering->present[MEMBER_PARTITIONKEYBASE64];
	rendering->present[MEMBER_DATACONTENTTYPE] = true; /* the header's is the envelope's own */
	rendering->present[MEMBER_DATA] = true;
	return 0;
}

static int add_event(struct rendering *rendering, struct json_stream *stream, struct err *err)
{
	int r;

	buf_add_str(rendering->out, "\"event\":{");
	r = copy_envelope(rendering, stream, err);
	if (r == JSON_BROKEN) {
		r = json_stream_read(stream, rendering->message->payload, NULL, NULL, err);
		rendering->data_is_json = r == 0;
	}
	if (r < 0)
		return r;
	for (int i = 0; i < MEMBER_COUNT; i++) {
		if (!rendering->present[i])
			add_member(rendering, (enum event_member)i);
	}
	buf_add_char(rendering->out, '}');
	return 0;
}

/* A line of the protocol ends at the first LF, so line breaks in the payload are replaced by spaces. In valid JSON
 * they can only be white space between tokens. Only the payload can contain them: the headers are the text of a jsonb,
 * which has none, and everything else is written by inboxd. */
static void flatten(struct buf *out, size_t start, struct bytes payload)
{
	static const char breaks[] = "\n\r";

	if (ascii_is_printable(payload))
		return;
	for (const char *c = breaks; *c != '\0' && buf_ok(out); c++) {
		char *at = out->data + start;
		char *end = out->data + out->length;

		while ((at = memchr(at, *c, (size_t)(end - at))) != NULL)
			*at++ = ' ';
	}
}

int event_renderer_new(struct event_renderer **out, struct err *err)
{
	struct event_renderer *renderer = calloc(1, sizeof(*renderer));
	int r;

	if (renderer == NULL)
		return err_memory(err);
	r = json_stream_new(&renderer->stream, err);
	if (r < 0) {
		event_renderer_free(renderer);
		return r;
	}
	*out = renderer;
	return 0;
}

void event_renderer_free(struct event_renderer *renderer)
{
	if (renderer == NULL)
		return;
	json_stream_free(renderer->stream);
	buf_fini(&renderer->headers.rest);
	free(renderer);
}

int event_render(struct event_renderer *renderer, const struct message *message, struct buf *out,
	struct err *err)
{
	struct rendering rendering = {
		.message = message, .headers = &renderer->headers, .out = out
	};
	size_t start = out->length;
	int r = read_headers(&renderer->headers, renderer->stream, message->headers, err);

	if (r == 0)
		r = add_event(&rendering, renderer->stream, err);
	if (r == 0 && !buf_ok(&renderer->headers.rest))
		r = err_memory(err);
	if (r < 0) {
		out->length = start;
		return r;
	}
	buf_add_str(out, ",\"headers\":");
	buf_add(out, renderer->headers.rest.data, renderer->headers.rest.length);
	buf_add_char(out, ']');
	flatten(out, start, message->payload);
	if (buf_ok(out))
		return 0;
	out->length = start;
	return err_memory(err);
}
