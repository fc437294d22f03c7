/*
 * Writes the lines that inboxd sends. Deliveries are written for every message, so they are assembled from pieces
 * without printf(3). Ids, claims and cancel reasons are made by inboxd and need no escaping. Names and error texts
 * are escaped.
 */
#include <string.h>

#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "dispatch/protocol/protocol.h"
#include "json/text.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

static void add_number(struct buf *out, int64_t number)
{
	char digits[DIGITS_MAX];

	buf_add(out, digits, (size_t)(digits_put(digits, number) - digits));
}

static void add_text(struct buf *out, const char *text)
{
	struct bytes bytes = bytes_of(text);

	/* A text that was cut inside a character would make the whole line invalid. */
	while (bytes.length > 0 && !utf8_is_valid(bytes))
		bytes.length--;
	json_add_string(out, bytes);
}

static void begin_reply(struct buf *out, struct bytes id)
{
	ADD(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	if (id.data == NULL)
		ADD(out, "null");
	else
		buf_add(out, id.data, id.length);
}

void protocol_add_error(struct buf *out, struct bytes id, int code, const char *text)
{
	protocol_add_error_with(out, id, code, text, NULL);
}

void protocol_add_error_with(
	struct buf *out, struct bytes id, int code, const char *text, const char *reason)
{
	begin_reply(out, id);
	ADD(out, ",\"error\":{\"code\":");
	add_number(out, code);
	ADD(out, ",\"message\":");
	add_text(out, text);
	if (reason != NULL) {
		ADD(out, ",\"data\":{\"reason\":");
		add_text(out, reason);
		ADD(out, "}");
	}
	ADD(out, "}}\n");
}

static bool same_topic(const struct subscription *one, const struct subscription *other)
{
	return one->topic == NULL || other->topic == NULL ? one->topic == other->topic
							  : strcmp(one->topic, other->topic) == 0;
}

/* The subscriptions in the form of a hello. A topic or type that was left out is written as "*". */
static void add_subscriptions(struct buf *out, const struct hello_reply *reply)
{
	const struct subscription *items = reply->subscribe;
	size_t start = out->length;
	size_t i;

	ADD(out, ",\"subscribe\":[");
	for (i = 0; i < reply->subscribe_count && out->length - start < PROTOCOL_MAX_ECHO; i++) {
		if (i > 0 && same_topic(&items[i - 1], &items[i])) {
			ADD(out, ",");
		} else {
			buf_add_str(out, i > 0 ? "]},{\"topic\":" : "{\"topic\":");
			add_text(out, items[i].topic == NULL ? "*" : items[i].topic);
			ADD(out, ",\"types\":[");
		}
		add_text(out, items[i].type == NULL ? "*" : items[i].type);
	}
	buf_add_str(out, i > 0 ? "]}]" : "]");
	if (i < reply->subscribe_count) {
		ADD(out, ",\"subscribe_omitted\":");
		add_number(out, (int64_t)(reply->subscribe_count - i));
	}
}

static const char *const orderings[] = {
	[ORDERING_NONE] = "none",
	[ORDERING_KEY] = "key",
	[ORDERING_PARTITION] = "partition",
};

void protocol_add_hello_reply(struct buf *out, struct bytes id, const struct hello_reply *reply)
{
	begin_reply(out, id);
	ADD(out, ",\"result\":{\"protocol\":1,\"session\":");
	add_text(out, reply->session);
	ADD(out, ",\"max_line_bytes\":");
	add_number(out, PROTOCOL_MAX_LINE);
	ADD(out, ",\"timeout_ms\":");
	add_number(out, reply->timeout_ms);
	ADD(out, ",\"max_attempts\":");
	add_number(out, reply->max_attempts);
	if (*reply->consumer != '\0') {
		ADD(out, ",\"consumer\":");
		add_text(out, reply->consumer);
	}
	ADD(out, ",\"ordering\":");
	add_text(out, orderings[reply->ordering]);
	add_subscriptions(out, reply);
	ADD(out, "}}\n");
}

void protocol_add_role_reply(struct buf *out, struct bytes id, const char *session)
{
	begin_reply(out, id);
	ADD(out, ",\"result\":{\"protocol\":1,\"session\":");
	add_text(out, session);
	ADD(out, ",\"role\":\"requests\",\"max_line_bytes\":");
	add_number(out, PROTOCOL_MAX_LINE);
	ADD(out, ",\"max_open\":");
	add_number(out, PROTOCOL_MAX_OPEN);
	ADD(out, "}}\n");
}

void protocol_add_result(struct buf *out, struct bytes id, const char *result)
{
	begin_reply(out, id);
	ADD(out, ",\"result\":");
	buf_add_str(out, result);
	ADD(out, "}\n");
}

void protocol_add_empty_reply(struct buf *out, struct bytes id)
{
	begin_reply(out, id);
	ADD(out, ",\"result\":{}}\n");
}

void protocol_add_drain_reply(struct buf *out, struct bytes id, int64_t in_flight)
{
	begin_reply(out, id);
	ADD(out, ",\"result\":{\"in_flight\":");
	add_number(out, in_flight);
	ADD(out, "}}\n");
}

void protocol_add_cancel(struct buf *out, const char *delivery, const char *reason)
{
	ADD(out, "{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"delivery\":\"");
	buf_add_str(out, delivery);
	ADD(out, "\",\"reason\":\"");
	buf_add_str(out, reason);
	ADD(out, "\"}}\n");
}

static void add_head(struct buf *out, const struct delivery_head *head)
{
	char deadline[32];

	clock_format_ms(head->deadline_unix_ms, deadline);
	ADD(out, "\"delivery\":{\"claim\":\"");
	buf_add_str(out, head->claim);
	ADD(out, "\",\"seq\":\"");
	add_number(out, head->seq);
	/* The name of a consumer needs no escaping. */
	if (*head->consumer != '\0') {
		ADD(out, "\",\"consumer\":\"");
		buf_add_str(out, head->consumer);
	}
	ADD(out, "\",\"attempt\":");
	add_number(out, head->attempt);
	ADD(out, ",\"max_attempts\":");
	add_number(out, head->max_attempts);
	ADD(out, ",\"deadline\":\"");
	buf_add_str(out, deadline);
	ADD(out, "\",\"replay\":");
	buf_add_str(out, head->replay ? "true" : "false");
	ADD(out, "},");
}

static void begin_request(struct buf *out, const char *id, const char *method)
{
	ADD(out, "{\"jsonrpc\":\"2.0\",\"id\":\"");
	buf_add_str(out, id);
	ADD(out, "\",\"method\":\"");
	buf_add_str(out, method);
	ADD(out, "\",\"params\":{");
}

void protocol_add_deliver(struct buf *out, const struct delivery_head *head, struct bytes event)
{
	begin_request(out, head->id, "deliver");
	add_head(out, head);
	buf_add(out, event.data, event.length);
	ADD(out, "}}\n");
}

void protocol_begin_batch(struct buf *out, const char *id)
{
	begin_request(out, id, "deliver_batch");
	ADD(out, "\"entries\":[");
}

void protocol_add_entry(
	struct buf *out, bool first, const struct delivery_head *head, struct bytes event)
{
	if (!first)
		ADD(out, ",");
	ADD(out, "{\"id\":\"");
	buf_add_str(out, head->id);
	ADD(out, "\",");
	add_head(out, head);
	buf_add(out, event.data, event.length);
	ADD(out, "}");
}

void protocol_end_batch(struct buf *out)
{
	ADD(out, "]}}\n");
}
