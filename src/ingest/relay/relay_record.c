/*
 * Implements relay_record.h.
 */
#include "ingest/relay/relay_record.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/time/clock.h"
#include "json/text.h"
#include "store/outbox/relay_rows.h"

#define LONGEST_TOPIC 249
#define HEADERS_BYTES 300 /* names of our headers, and of the members of a structured event */
#define RUN_COPIES                                                                                 \
	2 /* a record needs less for the lengths than for the bytes and lengths of the runs */
#define STRUCTURED     "application/cloudevents+json; charset=utf-8"
#define COPIES_OF_TEXT 2 /* the id is in two headers; JSON may escape a text */

/* --- The topic --------------------------------------------------------------------------------- */

static bool add_placeholder(
	const char **at, const char *placeholder, const char *value, struct buf *out)
{
	if (strncmp(*at, placeholder, strlen(placeholder)) != 0)
		return false;
	*at += strlen(placeholder);
	/* a character that no topic has, so that the result is refused */
	buf_add_str(out, value == NULL ? "/" : value);
	return true;
}

static bool is_topic(struct buf *name)
{
	const char *text = buf_str(name);

	if (name->length == 0 || name->length > LONGEST_TOPIC || strcmp(text, ".") == 0 ||
		strcmp(text, "..") == 0)
		return false;
	for (; *text != '\0'; text++) {
		if (!isalnum((unsigned char)*text) && strchr("._-", *text) == NULL)
			return false;
	}
	return true;
}

bool relay_topic_name(const struct outbox_config *outbox, const char *topic, const char *aggregate,
	const char *type, struct buf *out)
{
	const char *at = topic == NULL ? outbox->topic : topic;

	buf_reset(out);
	while (*at != '\0') {
		if (topic == NULL && (add_placeholder(&at, "{aggregate}", aggregate, out) ||
					     add_placeholder(&at, "{type}", type, out)))
			continue;
		buf_add_char(out, *at++);
	}
	return is_topic(out);
}

/* --- The record -------------------------------------------------------------------------------- */

static struct bytes value_of(const struct relay_record_source *source, enum relay_column column)
{
	return rows_bytes(source->rows, source->row, (int)column);
}

size_t relay_record_size(const struct relay_record_source *source)
{
	static const enum relay_column texts[] = { RELAY_EVENT_ID, RELAY_SOURCE, RELAY_TYPE,
		RELAY_SUBJECT, RELAY_CONTENT_TYPE };
	size_t payload = value_of(source, RELAY_PAYLOAD).length;
	size_t size = HEADERS_BYTES + value_of(source, RELAY_KEY).length +
		      RUN_COPIES * value_of(source, RELAY_HEADERS).length;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		size += COPIES_OF_TEXT * value_of(source, texts[i]).length;
	size += strlen(source->config->outbox.source);
	if (source->config->outbox.format == OUTBOX_STRUCTURED)
		payload += payload / 3 + 4;
	return size + payload;
}

/* The attributes of the event, in the order in which they are written. */
struct attributes {
	struct bytes source;
	char default_source[1024];
	char time[32];
};

static const char *group_of(const struct config *config)
{
	return consumer_conf_value(config, "group.id", "");
}

static void take_attributes(const struct relay_record_source *source, struct attributes *out)
{
	const char *configured = source->config->outbox.source;

	out->source = value_of(source, RELAY_SOURCE);
	if (out->source.data == NULL && configured[0] != '\0')
		out->source = bytes_of(configured);
	if (out->source.data == NULL) {
		(void)snprintf(out->default_source, sizeof(out->default_source), "/%s",
			group_of(source->config));
		out->source = bytes_of(out->default_source);
	}
	clock_format_ms(rows_timestamp_ms(source->rows, source->row, RELAY_CREATED), out->time);
}

static void add(struct rd_kafka_headers_s *headers, const char *name, struct bytes value)
{
	if (value.data != NULL)
		producer_headers_add(headers, bytes_of(name), value);
}

static void add_attributes(const struct relay_record_source *source,
	const struct attributes *attributes, struct rd_kafka_headers_s *headers)
{
	add(headers, "ce_specversion", BYTES_LITERAL("1.0"));
	add(headers, "ce_id", value_of(source, RELAY_EVENT_ID));
	add(headers, "ce_source", attributes->source);
	add(headers, "ce_type", value_of(source, RELAY_TYPE));
	add(headers, "ce_time", bytes_of(attributes->time));
	add(headers, "ce_subject", value_of(source, RELAY_SUBJECT));
}

static void add_users(const struct relay_record_source *source, struct rd_kafka_headers_s *headers)
{
	struct bytes runs = value_of(source, RELAY_HEADERS);
	struct bytes name;
	struct bytes value;

	while (rows_take_run(&runs, &name) && rows_take_run(&runs, &value)) {
		if (name.data != NULL)
			producer_headers_add(headers, name, value);
	}
}

/* --- A structured event ------------------------------------------------------------------------ */

static void add_member(struct buf *out, const char *name, struct bytes value)
{
	if (value.data == NULL)
		return;
	buf_addf(out, "%s\"%s\":", out->length == 1 ? "" : ",", name);
	json_add_string(out, value);
}

static bool is_json(const char *content_type)
{
	size_t length = content_type == NULL ? 0 : strcspn(content_type, "; ");

	return (length == strlen("application/json") &&
		       strncasecmp(content_type, "application/json", length) == 0) ||
	       (length > strlen("+json") && strncasecmp(content_type + length - strlen("+json"),
						    "+json", strlen("+json")) == 0);
}

/* Whatever its content type says, a payload that is not JSON would break the envelope. */
static int add_data(const struct relay_record_source *source, struct buf *out, struct err *err)
{
	struct bytes payload = value_of(source, RELAY_PAYLOAD);
	int r = JSON_BROKEN;

	if (is_json(rows_text(source->rows, source->row, RELAY_CONTENT_TYPE)))
		r = json_stream_read(source->json, payload, NULL, NULL, err);
	if (r < 0)
		return r;
	if (r == 0) {
		buf_add_str(out, ",\"data\":");
		buf_add(out, payload.data, payload.length);
		return 0;
	}
	buf_add_str(out, ",\"data_base64\":\"");
	base64_add(out, payload);
	buf_add_char(out, '"');
	return 0;
}

static int write_structured(const struct relay_record_source *source,
	const struct attributes *attributes, struct buf *out, struct err *err)
{
	int r;

	buf_add_char(out, '{');
	add_member(out, "specversion", BYTES_LITERAL("1.0"));
	add_member(out, "id", value_of(source, RELAY_EVENT_ID));
	add_member(out, "source", attributes->source);
	add_member(out, "type", value_of(source, RELAY_TYPE));
	add_member(out, "time", bytes_of(attributes->time));
	add_member(out, "subject", value_of(source, RELAY_SUBJECT));
	add_member(out, "datacontenttype", value_of(source, RELAY_CONTENT_TYPE));
	r = add_data(source, out, err);
	buf_add_char(out, '}');
	return r == 0 && !buf_ok(out) ? err_memory(err) : r;
}

/* --- All forms --------------------------------------------------------------------------------- */

/* A tombstone is one in every form. */
static bool is_structured(const struct relay_record_source *source)
{
	return source->config->outbox.format == OUTBOX_STRUCTURED &&
	       value_of(source, RELAY_PAYLOAD).data != NULL;
}

/* `bare` is the format of rows that came through the view of Debezium's router: they have all their headers. */
static bool is_bare(const struct relay_record_source *source)
{
	const char *format = rows_text(source->rows, source->row, RELAY_FORMAT);

	return format != NULL && strcmp(format, "bare") == 0;
}

static void add_ours(const struct relay_record_source *source, const struct attributes *attributes,
	struct rd_kafka_headers_s *headers)
{
	if (is_structured(source)) {
		add(headers, "content-type", BYTES_LITERAL(STRUCTURED));
	} else {
		if (source->config->outbox.format != OUTBOX_PLAIN)
			add_attributes(source, attributes, headers);
		add(headers, "content-type", value_of(source, RELAY_CONTENT_TYPE));
	}
	add(headers, "event-id", value_of(source, RELAY_EVENT_ID));
}

int relay_record_write(const struct relay_record_source *source, struct buf *scratch,
	struct outgoing *out, struct err *err)
{
	struct attributes attributes;
	bool bare = is_bare(source);
	int r;

	take_attributes(source, &attributes);
	*out = (struct outgoing){
		.topic = source->topic,
		.key = value_of(source, RELAY_KEY),
		.value = value_of(source, RELAY_PAYLOAD),
	};
	if (!bare && is_structured(source)) {
		buf_reset(scratch);
		r = write_structured(source, &attributes, scratch, err);
		if (r != 0)
			return r;
		out->value = (struct bytes){ scratch->data, scratch->length };
	}
	out->headers = producer_headers_new();
	if (!bare)
		add_ours(source, &attributes, out->headers);
	add_users(source, out->headers);
	return 0;
}
