/*
 * From a record to its handler: what identity accepts becomes a message, is rendered as an event, put
 * into a line and read by the handler library. On the way every line is one line of valid JSON in
 * UTF-8; at the end the handler has the id, the key, the payload and the headers that were sent.
 */
#include <yajl/yajl_parse.h>

#include "client/reader.h"
#include "demand.h"
#include "dispatch/protocol/protocol.h"
#include "json/members.h"
#include "model/event/cloudevent.h"
#include "model/event/event.h"
#include "written_record.h"

static struct identity_finder *finder;
static struct event_renderer *renderer;
static struct json_stream *stream;
static struct ih_pool pool;
static struct ih_reader *reader;

static void open_all(void)
{
	if (finder != NULL)
		return;
	demand(identity_finder_new(&finder, NULL) == 0);
	demand(event_renderer_new(&renderer, NULL) == 0);
	demand(json_stream_new(&stream, NULL) == 0);
	ih_pool_init(&pool);
	reader = ih_reader_new(&pool);
	demand(reader != NULL);
}

/* yajl alone, as a handler in another language might read it. */
static void check_json(struct bytes text)
{
	yajl_handle yajl = yajl_alloc(NULL, NULL, NULL);

	demand(utf8_is_valid(text));
	demand(memchr(text.data, '\n', text.length) == NULL);
	demand(memchr(text.data, '\r', text.length) == NULL);
	demand(yajl_parse(yajl, text.data, text.length) == yajl_status_ok);
	demand(yajl_complete_parse(yajl) == yajl_status_ok);
	yajl_free(yajl);
}

/* The members that CloudEvents or inboxd defines; every event has the first four. */
static const char *const members[] = { "id", "source", "type", "specversion", "time",
	"datacontenttype", "partitionkey", "partitionkeybase64", "kafkatopic", "kafkapartition",
	"kafkaoffset", "traceparent", "tracestate", "data", "data_base64" };

/* No member that has a name here is there twice: readers disagree on which of two counts. What an
 * envelope makes up itself is passed on as it is. */
static bool visit_member(void *arg, const struct json_member *member)
{
	bool *seen = arg;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (!bytes_equal(member->name, bytes_of(members[i])))
			continue;
		demand(!seen[i]);
		seen[i] = true;
	}
	return true;
}

static bool visit_line_member(void *arg, const struct json_member *member)
{
	struct bytes *event = arg;

	if (bytes_equal(member->name, bytes_of("event")))
		*event = member->raw;
	return true;
}

static void check_members(struct bytes rendered)
{
	struct buf line = BUF_INIT;
	struct bytes event = { NULL, 0 };
	bool seen[sizeof(members) / sizeof(members[0])] = { false };

	buf_add_char(&line, '{');
	buf_add(&line, rendered.data, rendered.length);
	buf_add_char(&line, '}');
	check_json((struct bytes){ line.data, line.length });
	demand(json_read_members(stream, (struct bytes){ line.data, line.length },
		       visit_line_member, &event, NULL) == 0);
	demand(event.data != NULL);
	demand(json_read_members(stream, event, visit_member, seen, NULL) == 0);
	demand(seen[0] && seen[1] && seen[2] && seen[3]);
	buf_fini(&line);
}

static bool same_bytes(struct bytes a, struct inbox_bytes b)
{
	return bytes_equal(a, (struct bytes){ b.data, b.length });
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* JSON as a value of its own: the white space around it belongs to nobody. */
static struct bytes trimmed(struct bytes text)
{
	const char *start = text.data;
	size_t length = text.length;

	while (length > 0 && is_blank(start[length - 1]))
		length--;
	for (; length > 0 && is_blank(*start); length--)
		start++;
	return (struct bytes){ start, length };
}

/* Byte for byte, but for line breaks between the tokens of JSON. */
static void check_data(const struct message *message, const struct inbox_delivery *delivery)
{
	struct inbox_bytes data = inbox_delivery_data(delivery);
	struct bytes payload = message->payload;
	const char *sent;

	demand((payload.data == NULL) == (data.data == NULL));
	if (payload.data == NULL)
		return;
	if (inbox_delivery_data_is_json(delivery))
		payload = trimmed(payload);
	sent = payload.data;
	demand(payload.length == data.length);
	for (size_t i = 0; i < data.length; i++)
		demand(data.data[i] == sent[i] ||
			(data.data[i] == ' ' && (sent[i] == '\n' || sent[i] == '\r')));
}

static bool is_ce(const char *name)
{
	return strncmp(name, "ce_", 3) == 0;
}

/* Every header that is no ce_* one, in its place. */
static void check_headers(const struct record *record, const struct inbox_delivery *delivery)
{
	size_t at = 0;

	for (size_t i = 0; i < record->header_count; i++) {
		const struct header *header = &record->headers[i];

		while (at < inbox_delivery_header_count(delivery) &&
			is_ce(inbox_delivery_header_name(delivery, at)))
			at++;
		if (is_ce(header->name))
			continue;
		demand(strcmp(inbox_delivery_header_name(delivery, at), header->name) == 0);
		demand(same_bytes(header->value, inbox_delivery_header_value(delivery, at)));
		at++;
	}
}

static bool has_attribute(const struct record *record, const char *name)
{
	for (size_t i = 0; i < record->header_count; i++) {
		if (strcmp(record->headers[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool is_structured(const struct record *record)
{
	for (size_t i = 0; i < record->header_count; i++) {
		if (cloudevent_is_content_type(bytes_of(record->headers[i].name)) &&
			cloudevent_is_structured(record->headers[i].value))
			return true;
	}
	return false;
}

static void check_delivery(const struct record *record, const struct message *message,
	const struct inbox_delivery *delivery)
{
	demand(inbox_delivery_seq(delivery) == 9001 && inbox_delivery_attempt(delivery) == 2);
	demand(same_text(inbox_delivery_consumer(delivery), "billing"));
	demand(same_text(inbox_delivery_topic(delivery), message->topic));
	demand(inbox_delivery_offset(delivery) == message->offset);
	demand(inbox_delivery_partition(delivery) == message->partition);
	check_headers(record, delivery);
	if (is_structured(record) && message->payload.data != NULL)
		return; /* the envelope speaks for itself, with a data_base64 that may be none */
	demand(delivery->broken == NULL);
	demand(same_text(inbox_delivery_event_id(delivery), message->event_id));
	demand(same_text(inbox_delivery_source(delivery), message->source));
	check_data(message, delivery);
	if (!has_attribute(record, "ce_partitionkey"))
		demand(same_bytes(message->key, inbox_delivery_key(delivery)));
}

static const struct inbox_delivery *receive(struct bytes event)
{
	const struct delivery_head head = { .id = "d9001.2",
		.claim = "9001.2.17",
		.seq = 9001,
		.consumer = "billing",
		.attempt = 2,
		.max_attempts = 10,
		.deadline_unix_ms = 1700000000000 };
	struct buf line = BUF_INIT;
	struct ih_line *read = NULL;

	protocol_add_deliver(&line, &head, event);
	demand(buf_ok(&line) && line.data[line.length - 1] == '\n');
	check_json((struct bytes){ line.data, line.length - 1 });
	demand(ih_reader_read(reader, line.data, line.length - 1, &read) == 0);
	demand(!TAILQ_EMPTY(&read->deliveries) && !read->entries);
	buf_fini(&line);
	return TAILQ_FIRST(&read->deliveries);
}

/* Twice, and with too little room: then nothing is left behind. */
static void check_again(const struct message *message, const struct buf *first)
{
	struct buf again = BUF_INIT;
	struct buf small = { .limit = 1 + first->length / 2 };

	demand(event_render(renderer, message, &again, NULL) == 0);
	demand(again.length == first->length &&
		memcmp(again.data, first->data, first->length) == 0);
	buf_add_char(&small, '{');
	demand(event_render(renderer, message, &small, NULL) == FAULT_MEMORY);
	demand(small.length == 1);
	buf_fini(&small);
	buf_fini(&again);
}

static void check_message(const struct written_record *written, const struct message *message)
{
	struct buf out = BUF_INIT;
	const struct inbox_delivery *delivery;
	struct bytes event;

	demand(event_render(renderer, message, &out, NULL) == 0);
	event = (struct bytes){ out.data, out.length };
	check_members(event);
	delivery = receive(event);
	if (written->stored_headers.data == NULL)
		check_delivery(&written->record, message, delivery);
	check_again(message, &out);
	buf_fini(&out);
}

static void check_record(const struct written_record *written, const struct identity *identity)
{
	const struct record *record = &written->record;
	struct buf headers = BUF_INIT;
	struct message message = {
		.seq = 9001,
		.event_id = identity->event_id,
		.source = identity->source,
		.type = identity->type,
		.topic = record->topic,
		.partition = record->partition,
		.offset = record->offset,
		.timestamp_ms = record->timestamp_ms,
		.key = record->key,
		.payload = record->payload,
	};

	headers_encode(&headers, record->headers, record->header_count);
	check_json((struct bytes){ headers.data, headers.length });
	message.headers = (struct bytes){ headers.data, headers.length };
	if (written->stored_headers.data != NULL)
		message.headers = written->stored_headers;
	check_message(written, &message);
	buf_fini(&headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct written_record written;
	struct identity_rules *rules = NULL;
	struct identity identity;

	open_all();
	written_record_init(&written, data, size);
	if (identity_rules_new(&rules, &written.spec, NULL) == 0 &&
		identity_find(finder, rules, &written.record, &identity, NULL) == 0)
		check_record(&written, &identity);
	identity_rules_free(rules);
	written_record_fini(&written);
	return 0;
}
