/* event.c: the event that a handler gets, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "json/stream.h"
#include "model/event/event.h"
#include "model/message/record.h"

#define BYTES(literal)                                                                             \
	(struct bytes)                                                                             \
	{                                                                                          \
		(literal), sizeof(literal) - 1                                                     \
	}
#define STRUCTURED "[[\"content-type\",\"application/cloudevents+json\"]]"
#define HEAD       "\"specversion\":\"1.0\",\"id\":\"A\",\"source\":\"s\",\"type\":\"t\""
#define COORDS     "\"kafkatopic\":\"orders\",\"kafkapartition\":3,\"kafkaoffset\":\"918273\""

static int set_up(void **state)
{
	struct event_renderer *renderer = NULL;
	int r = event_renderer_new(&renderer, NULL);

	*state = renderer;
	return r;
}

static int tear_down(void **state)
{
	event_renderer_free(*state);
	return 0;
}

/* A tombstone without key, headers and time has only the members that always exist. */
static struct message bare(void)
{
	return (struct message){
		.event_id = "A",
		.source = "s",
		.type = "t",
		.topic = "orders",
		.partition = 3,
		.offset = 918273,
		.timestamp_ms = -1,
	};
}

static void render(struct event_renderer *renderer, const struct message *message, struct buf *out)
{
	assert_int_equal(event_render(renderer, message, out, NULL), 0);
	assert_null(memchr(out->data, '\n', out->length));
	assert_null(memchr(out->data, '\r', out->length));
}

static void assert_is_json_object(const struct buf *rendered)
{
	struct json_stream *stream = NULL;
	struct buf text = BUF_INIT;

	buf_add_char(&text, '{');
	buf_add(&text, rendered->data, rendered->length);
	buf_add_char(&text, '}');
	assert_int_equal(json_stream_new(&stream, NULL), 0);
	assert_int_equal(json_stream_read(stream, (struct bytes){ text.data, text.length }, NULL,
				 NULL, NULL),
		0);
	json_stream_free(stream);
	buf_fini(&text);
}

static void assert_renders(
	struct event_renderer *renderer, const struct message *message, const char *expected)
{
	struct buf out = BUF_INIT;

	render(renderer, message, &out);
	assert_string_equal(buf_str(&out), expected);
	assert_is_json_object(&out);
	buf_fini(&out);
}

/* `part` is somewhere in what is rendered. */
static void assert_renders_part(
	struct event_renderer *renderer, const struct message *message, const char *part)
{
	struct buf out = BUF_INIT;

	render(renderer, message, &out);
	if (strstr(buf_str(&out), part) == NULL)
		fail_msg("no %s in %s", part, buf_str(&out));
	assert_is_json_object(&out);
	buf_fini(&out);
}

static void assert_renders_without(
	struct event_renderer *renderer, const struct message *message, const char *part)
{
	struct buf out = BUF_INIT;

	render(renderer, message, &out);
	if (strstr(buf_str(&out), part) != NULL)
		fail_msg("%s in %s", part, buf_str(&out));
	buf_fini(&out);
}

static void a_tombstone_has_no_data(void **state)
{
	const struct message message = bare();

	assert_renders(*state, &message, "\"event\":{" HEAD "," COORDS "},\"headers\":[]");
}

static void the_members_are_in_the_documented_order(void **state)
{
	struct message message = bare();

	message.timestamp_ms = 1795239659120;
	message.key = BYTES("c-17");
	message.headers = BYTES("[[\"ce_traceparent\",\"00-1\"],[\"ce_tracestate\",\"a=b\"],"
				"[\"ce_subject\",\"x\"],[\"eventType\",\"order.created\"]]");
	message.payload = BYTES("{\"order\":17}");
	assert_renders(*state, &message,
		"\"event\":{" HEAD ",\"subject\":\"x\",\"time\":\"2026-11-21T05:40:59.120Z\","
		"\"datacontenttype\":\"application/json\",\"partitionkey\":\"c-17\"," COORDS
		",\"traceparent\":\"00-1\",\"tracestate\":\"a=b\",\"data\":{\"order\":17}},"
		"\"headers\":[[\"eventType\",\"order.created\"]]");
}

static void an_event_without_a_type_has_its_topic_as_type(void **state)
{
	struct message message = bare();

	message.type = NULL;
	assert_renders_part(*state, &message, "\"type\":\"orders\"");
}

static void ids_sources_and_types_are_escaped(void **state)
{
	struct message message = bare();

	message.event_id = "a\"b";
	message.source = "\n";
	message.type = "\\";
	assert_renders_part(
		*state, &message, "\"id\":\"a\\\"b\",\"source\":\"\\n\",\"type\":\"\\\\\"");
}

static void json_passes_through_byte_for_byte(void **state)
{
	const char *const rows[] = { "1.50", "12345678901234567890123", "-0", "1E400", "null",
		"\"\\u00e9\\ud800\\/\"", "{ \"a\" : [ 1 , 2 ] }\t", "{\"a\":1,\"a\":2}",
		"\"\xc3\xa9\"", "\"\x7f\"" };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message message = bare();
		char expected[128];

		message.payload = bytes_of(rows[i]);
		(void)snprintf(expected, sizeof(expected), "\"data\":%s},\"headers\":[]", rows[i]);
		assert_renders_part(*state, &message, expected);
		assert_renders_part(*state, &message, "\"datacontenttype\":\"application/json\"");
	}
}

static void line_breaks_between_tokens_become_spaces(void **state)
{
	struct message message = bare();

	message.payload = BYTES("{\r\n\t\"a\": \"x\\n\"\n}\n");
	assert_renders_part(*state, &message, "\"data\":{  \t\"a\": \"x\\n\" } }");
}

static void a_payload_that_is_not_strict_json_is_base64(void **state)
{
	const struct {
		struct bytes payload;
		const char *part;
	} rows[] = {
		{ BYTES(""), "\"data_base64\":\"\"}" },
		{ BYTES("text"), "\"data_base64\":\"dGV4dA==\"}" },
		{ BYTES("\xff\xfe"), "\"data_base64\":\"//4=\"}" },
		{ BYTES("{} {}"), "\"data_base64\":\"e30ge30=\"}" },
		{ BYTES("[1,\v2]"), "\"data_base64\":\"WzEsCzJd\"}" },
		{ BYTES("[1,\f2]"), "\"data_base64\":\"WzEsDDJd\"}" },
		{ BYTES("[1]//"), "\"data_base64\":\"WzFdLy8=\"}" },
		{ BYTES("\"\xed\xa0\x80\""), "\"data_base64\":\"Iu2ggCI=\"}" },
		{ BYTES("{}\0"), "\"data_base64\":\"e30A\"}" },
		{ BYTES("\n"), "\"data_base64\":\"Cg==\"}" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message message = bare();

		message.payload = rows[i].payload;
		assert_renders_part(*state, &message, rows[i].part);
		assert_renders_without(*state, &message, "datacontenttype");
	}
}

static void data_deeper_than_512_is_base64(void **state)
{
	char text[2 * 513];
	struct message message = bare();
	struct buf out = BUF_INIT;

	memset(text, '[', 513);
	memset(text + 513, ']', 513);
	message.payload = (struct bytes){ text + 1, sizeof(text) - 2 };
	render(*state, &message, &out);
	assert_non_null(strstr(buf_str(&out), "\"data\":[["));
	buf_fini(&out);
	message.payload = (struct bytes){ text, sizeof(text) };
	assert_renders_part(*state, &message, "\"data_base64\":\"W1tb");
}

static void the_content_type_is_that_of_the_producer(void **state)
{
	struct message message = bare();

	message.payload = BYTES("text");
	message.headers = BYTES("[[\"Content-Type\",\"text/a\"],[\"content-type\",\"text/b\"]]");
	assert_renders_part(*state, &message, "\"datacontenttype\":\"text/b\"");
	assert_renders_part(*state, &message,
		"\"headers\":[[\"Content-Type\",\"text/a\"],[\"content-type\",\"text/b\"]]");
	message.headers = BYTES("[[\"ce_datacontenttype\",\"text/c\"]]");
	assert_renders_part(*state, &message, "\"datacontenttype\":\"text/c\"");
	message.payload = BYTES("{}");
	message.headers = BYTES("[[\"content-type\",\"\"]]");
	assert_renders_part(*state, &message, "\"datacontenttype\":\"application/json\"");
}

static void the_time_is_that_of_the_producer_or_of_kafka(void **state)
{
	struct message message = bare();

	message.timestamp_ms = 0;
	assert_renders_part(*state, &message, "\"time\":\"1970-01-01T00:00:00.000Z\"");
	message.headers = BYTES("[[\"ce_time\",\"2026-01-01T00:00:00Z\"]]");
	assert_renders_part(*state, &message, "\"time\":\"2026-01-01T00:00:00Z\"");
	message.headers = BYTES("[[\"ce_time\",\"\"]]");
	assert_renders_part(*state, &message, "\"time\":\"1970-01-01T00:00:00.000Z\"");
}

/* Libraries of CloudEvents refuse an event with a wrong attribute, so it stays a header. */
static void an_attribute_that_cloudevents_does_not_allow_stays_a_header(void **state)
{
	static const struct {
		const char *name;
		const char *values[24];
	} right[] = {
		{ "time",
			{ "2026-01-01T00:00:00Z", "2024-02-29T23:59:59.123456789+14:00",
				"0001-12-31T00:00:00.0-18:00", "2000-02-29T00:00:00-00:30" } },
		{ "dataschema", { "https://example.com/a%20b?c=d#e", "urn:x:y" } },
		{ "datacontenttype",
			{ "text/plain", "application/vnd.a+json; charset=\\\"utf-8\\\"", "a/b;c=d" } },
		{ "specversion", { "1.0" } },
		{ "other", { "any text" } },
	}, wrong[] = {
		{ "time",
			{ "yesterday", "1767225600", "2026-01-01", "2026-01-01 00:00:00Z",
				"2026-01-01t00:00:00z", "2026-01-01T00:00:00", "2026-01-01T00:00Z",
				"2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
				"2026-00-01T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z",
				"2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-12-31T23:59:60Z",
				"2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z",
				"2026-01-01T00:00:00+18:01", "2026-01-01T00:00:00+0100",
				"0000-01-01T00:00:00Z", "2026-01-01T00:00:00Zx" } },
		{ "dataschema", { "schema", "/a", "a b:c", "urn:", "1a:b", "a:%2", "a:%zz", "a:\xc3\xbc" } },
		{ "datacontenttype", { "json", "/b", "a/", "a/b,c", "a b/c" } },
		{ "specversion", { "0.3", "1", "1.0.2" } },
	};
	struct message message = bare();
	char headers[128];
	char part[160];

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		for (size_t n = 0; right[i].values[n] != NULL; n++) {
			(void)snprintf(headers, sizeof(headers), "[[\"ce_%s\",\"%s\"]]",
				right[i].name, right[i].values[n]);
			(void)snprintf(part, sizeof(part), "\"%s\":\"%s\"", right[i].name,
				right[i].values[n]);
			message.headers = bytes_of(headers);
			assert_renders_part(*state, &message, part);
			assert_renders_part(*state, &message, "\"headers\":[]");
		}
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (size_t n = 0; wrong[i].values[n] != NULL; n++) {
			(void)snprintf(headers, sizeof(headers), "[[\"ce_%s\",\"%s\"]]",
				wrong[i].name, wrong[i].values[n]);
			(void)snprintf(
				part, sizeof(part), HEAD "," COORDS "},\"headers\":%s", headers);
			message.headers = bytes_of(headers);
			assert_renders_part(*state, &message, part);
		}
	}
	message.headers =
		BYTES("[[\"content-type\",\"json\"],[\"ce_datacontenttype\",\"text/c\"]]");
	assert_renders_part(*state, &message, "\"datacontenttype\":\"text/c\"");
	message.headers = BYTES("[[\"ce_time\",\"yesterday\"]]");
	message.timestamp_ms = 0;
	assert_renders_part(*state, &message, "\"time\":\"1970-01-01T00:00:00.000Z\"");
}

static void an_attribute_of_an_envelope_that_cloudevents_does_not_allow_becomes_a_header(
	void **state)
{
	struct message message = bare();

	message.headers = BYTES(STRUCTURED);
	message.payload =
		BYTES("{\"specversion\":\"0.3\",\"id\":\"A\",\"source\":\"s\",\"type\":\"t\","
		      "\"time\":17,\"dataschema\":\"x\",\"datacontenttype\":null}");
	assert_renders_part(*state, &message,
		"\"event\":{\"id\":\"A\",\"source\":\"s\",\"type\":\"t\",\"specversion\":\"1."
		"0\"," COORDS "},"
		"\"headers\":[[\"content-type\",\"application/"
		"cloudevents+json\"],[\"ce_specversion\",\"0.3\"],"
		"[\"ce_time\",\"17\"],[\"ce_dataschema\",\"x\"]]");
	message.payload = BYTES("{\"specversion\":\"1.0\",\"time\":17,");
	assert_renders_part(*state, &message, "\"headers\":" STRUCTURED);
}

/* PHP escapes slashes, Go ampersands, and .NET the plus sign. */
static void escapes_in_an_attribute_of_an_envelope_break_no_rule(void **state)
{
	static const char rest[] = "\"dataschema\":\"https:\\/\\/a\\/b?c\\u0026d\","
				   "\"time\":\"2026-01-01T00:00:00\\u002B00:00\","
				   "\"datacontenttype\":\"application\\/json\"";
	struct message message = bare();
	char payload[256];

	(void)snprintf(payload, sizeof(payload),
		"{\"specversion\":\"1.0\",\"id\":\"A\",\"source\":\"s\",\"type\":\"t\",%s}", rest);
	message.headers = BYTES(STRUCTURED);
	message.payload = bytes_of(payload);
	assert_renders_part(*state, &message, rest);
	assert_renders_part(*state, &message, "\"headers\":" STRUCTURED);
	message.payload = BYTES(
		"{\"id\":\"A\",\"source\":\"s\",\"type\":\"t\",\"dataschema\":\"a:\\u0020\"}");
	assert_renders_part(*state, &message, "[\"ce_dataschema\",\"a:\\u0020\"]");
}

static void a_key_that_is_not_utf8_is_base64(void **state)
{
	struct message message = bare();

	message.key = BYTES("\xff");
	assert_renders_part(*state, &message, "\"partitionkeybase64\":\"/w==\"," COORDS);
	message.key = BYTES("");
	assert_renders_part(*state, &message, "\"partitionkey\":\"\"," COORDS);
	message.key = BYTES("a\0\"");
	assert_renders_part(*state, &message, "\"partitionkey\":\"a\\u0000\\\"\"," COORDS);
	message.headers = BYTES("[[\"ce_partitionkey\",\"own\"]]");
	assert_renders_part(*state, &message, "\"partitionkey\":\"own\"," COORDS);
}

static void the_trace_context_comes_from_either_header(void **state)
{
	struct message message = bare();

	message.headers = BYTES("[[\"traceparent\",\"00-a\"],[\"tracestate\",\"x=y\"]]");
	assert_renders_part(*state, &message, "\"traceparent\":\"00-a\",\"tracestate\":\"x=y\"}");
	assert_renders_part(*state, &message, "[[\"traceparent\",\"00-a\"],[\"tracestate\"");
	message.headers = BYTES("[[\"ce_traceparent\",\"00-b\"],[\"traceparent\",\"00-a\"]]");
	assert_renders_part(*state, &message, "\"traceparent\":\"00-b\"}");
}

static void only_valid_ce_headers_become_attributes(void **state)
{
	struct message message = bare();

	message.headers =
		BYTES("[[\"ce_a1\",\"x\"], "
		      "[\"ce_Upper\",\"x\"],[\"ce_under_score\",\"x\"],[\"ce_\",\"x\"],"
		      "[\"ce_bin\",{\"base64\":\"/w==\"}],[\"ce_nul\",null],[\"ce_data\",\"x\"],"
		      "[\"ce_kafkaoffset\",\"7\"],[{\"base64\":\"/w==\"},\"x\"]]");
	assert_renders(*state, &message,
		"\"event\":{" HEAD ",\"a1\":\"x\"," COORDS "},\"headers\":["
		"[\"ce_Upper\",\"x\"],[\"ce_under_score\",\"x\"],[\"ce_\",\"x\"],"
		"[\"ce_bin\",{\"base64\":\"/w==\"}],[\"ce_nul\",null],[\"ce_data\",\"x\"],"
		"[\"ce_kafkaoffset\",\"7\"],[{\"base64\":\"/w==\"},\"x\"]]");
}

static void headers_used_for_the_identity_are_not_repeated(void **state)
{
	struct message message = bare();

	message.headers = BYTES("[[\"ce_id\",\"A\"],[\"ce_source\",\"s\"],[\"ce_type\",\"t\"],"
				"[\"ce_specversion\",\"1.0\"]]");
	assert_renders(*state, &message, "\"event\":{" HEAD "," COORDS "},\"headers\":[]");
}

static void the_last_value_of_a_repeated_attribute_counts(void **state)
{
	struct message message = bare();

	message.headers = BYTES("[[\"ce_x\",\"1\"],[\"ce_y\",\"2\"],[\"ce_x\",\"3\"]]");
	assert_renders(*state, &message,
		"\"event\":{" HEAD ",\"x\":\"3\",\"y\":\"2\"," COORDS "},\"headers\":[]");
}

static void more_than_64_attributes_stay_headers(void **state)
{
	struct message message = bare();
	struct buf headers = BUF_INIT;

	for (int i = 0; i < 65; i++)
		buf_addf(&headers, "%s[\"ce_x%d\",\"v\"]", i == 0 ? "[" : ",", i);
	buf_add_char(&headers, ']');
	message.headers = (struct bytes){ headers.data, headers.length };
	assert_renders_part(*state, &message, "\"x63\":\"v\"," COORDS);
	assert_renders_part(*state, &message, "\"headers\":[[\"ce_x64\",\"v\"]]");
	buf_fini(&headers);
}

static void headers_are_read_as_postgresql_writes_them(void **state)
{
	struct message message = bare();

	message.headers = BYTES("[[\"a\", \"x\\\"y\\n\"], [\"bin\", {\"base64\": \"/w==\"}], "
				"[\"nul\", null], [\"ce_b\", \"z\"]]");
	assert_renders(*state, &message,
		"\"event\":{" HEAD ",\"b\":\"z\"," COORDS "},\"headers\":[[\"a\", \"x\\\"y\\n\"],"
		"[\"bin\", {\"base64\": \"/w==\"}],[\"nul\", null]]");
}

static void malformed_stored_headers_are_omitted(void **state)
{
	const struct bytes rows[] = { BYTES("oops"), BYTES("{}"), BYTES("7"), BYTES(""),
		BYTES("[[\"a\",\"b\"],"), BYTES("[[],[\"a\"],[\"a\",\"b\",\"c\"],7,{\"a\":\"b\"}]"),
		{ NULL, 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message message = bare();

		message.headers = rows[i];
		assert_renders(*state, &message, "\"event\":{" HEAD "," COORDS "},\"headers\":[]");
	}
}

static void headers_that_headers_encode_writes_can_be_read(void **state)
{
	const struct header headers[] = {
		{ "ce_subject", BYTES("a\"b") },
		{ "bin", BYTES("\xff") },
		{ "line", BYTES("\r\n") },
	};
	struct message message = bare();
	struct buf text = BUF_INIT;

	headers_encode(&text, headers, 3);
	message.headers = (struct bytes){ text.data, text.length };
	assert_renders(*state, &message,
		"\"event\":{" HEAD ",\"subject\":\"a\\\"b\"," COORDS "},\"headers\":"
		"[[\"bin\",{\"base64\":\"/w==\"}],[\"line\",\"\\r\\n\"]]");
	buf_fini(&text);
}

static void a_structured_cloudevent_is_delivered_as_its_envelope(void **state)
{
	struct message message = bare();

	message.timestamp_ms = 0;
	message.key = BYTES("k");
	message.headers = BYTES(STRUCTURED);
	message.payload = BYTES(
		"{\n\"type\":\"t\",\"specversion\":\"1.0\",\"id\":\"A\",\"source\":\"s\",\"n\":1."
		"50,"
		"\"time\":\"2026-01-01T00:00:00Z\",\"data\":{ \"x\":\n[1e2] },\"subject\":\"q\"}");
	assert_renders(*state, &message,
		"\"event\":{\"type\":\"t\",\"specversion\":\"1.0\",\"id\":\"A\",\"source\":\"s\","
		"\"n\":1.50,\"time\":\"2026-01-01T00:00:00Z\",\"data\":{ \"x\": [1e2] },"
		"\"subject\":\"q\",\"partitionkey\":\"k\"," COORDS "},\"headers\":" STRUCTURED);
}

static void missing_members_of_an_envelope_are_added(void **state)
{
	struct message message = bare();

	message.timestamp_ms = 0;
	message.headers = BYTES("[[\"content-type\",\"application/cloudevents+json\"],"
				"[\"traceparent\",\"00-a\"],[\"ce_x\",\"1\"],[\"ce_y\",\"2\"]]");
	message.payload =
		BYTES("{\"id\":\"A\",\"type\":null,\"x\":\"own\",\"data_base64\":\"AA==\"}");
	assert_renders(*state, &message,
		"\"event\":{\"id\":\"A\",\"x\":\"own\",\"data_base64\":\"AA==\","
		"\"specversion\":\"1.0\",\"source\":\"s\",\"type\":\"t\",\"y\":\"2\","
		"\"time\":\"1970-01-01T00:00:00.000Z\"," COORDS ",\"traceparent\":\"00-a\"},"
		"\"headers\":[[\"content-type\",\"application/cloudevents+json\"],"
		"[\"traceparent\",\"00-a\"]]");
}

static void an_envelope_keeps_its_partitionkey_but_not_the_coordinates(void **state)
{
	struct message message = bare();

	message.key = BYTES("k");
	message.headers = BYTES(STRUCTURED);
	message.payload = BYTES("{\"id\":\"A\",\"partitionkey\":\"own\",\"kafkaoffset\":\"7\","
				"\"kafkatopic\":1,\"id\":\"B\"}");
	assert_renders(*state, &message,
		"\"event\":{\"id\":\"A\",\"partitionkey\":\"own\",\"specversion\":\"1.0\","
		"\"source\":\"s\",\"type\":\"t\"," COORDS "},\"headers\":" STRUCTURED);
	message.payload = BYTES("{\"id\":\"A\",\"partitionkeybase64\":\"AA==\"}");
	assert_renders_without(*state, &message, "\"partitionkey\"");
}

static void a_malformed_envelope_is_delivered_as_bytes(void **state)
{
	const struct {
		struct bytes payload;
		const char *data;
	} rows[] = {
		{ BYTES("{\"id\":\"A\",\"x\":1"), "\"data_base64\":\"eyJpZCI6IkEiLCJ4Ijox\"" },
		{ BYTES("{\"id\":\"A\",\"\\u0069d\":1}"),
			"\"data\":{\"id\":\"A\",\"\\u0069d\":1}" },
		{ BYTES("[1]"), "\"data\":[1]" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message message = bare();
		char expected[512];

		message.headers = BYTES(STRUCTURED);
		message.payload = rows[i].payload;
		(void)snprintf(expected, sizeof(expected),
			"\"event\":{" HEAD
			",\"datacontenttype\":\"application/cloudevents+json\"," COORDS
			",%s},\"headers\":" STRUCTURED,
			rows[i].data);
		assert_renders(*state, &message, expected);
	}
}

static void memory_of_one_event_is_reused_for_the_next(void **state)
{
	struct message message = bare();

	message.headers =
		BYTES("[[\"content-type\",\"application/cloudevents\"],[\"ce_x\",\"1\"]]");
	message.payload = BYTES("{\"id\":\"A\",\"x\":\"own\"}");
	assert_renders_without(*state, &message, "\"x\":\"1\"");
	message.payload = BYTES("{\"id\":\"A\",\"x\":\"own\"");
	assert_renders_part(*state, &message, "\"x\":\"1\"");
	message.payload = BYTES("{\"id\":\"A\",\"x\":\"own\"}");
	assert_renders_without(*state, &message, "\"x\":\"1\"");
	message.headers = BYTES("[[\"ce_x\",\"1\"]]");
	assert_renders_part(*state, &message, "\"x\":\"1\"");
}

static void an_event_is_appended(void **state)
{
	const struct message message = bare();
	struct buf out = BUF_INIT;

	buf_add_str(&out, "\n{");
	assert_int_equal(event_render(*state, &message, &out, NULL), 0);
	assert_memory_equal(out.data, "\n{\"event\":{\"spec", 16);
	buf_fini(&out);
}

static int render_once(struct buf *out)
{
	struct event_renderer *renderer = NULL;
	struct message message = bare();
	int r = event_renderer_new(&renderer, NULL);

	message.headers = BYTES("[[\"a\",\"b\"]]");
	message.payload = BYTES("{}");
	if (r == 0)
		r = event_render(renderer, &message, out, NULL);
	event_renderer_free(renderer);
	return r;
}

static void every_failed_allocation_is_a_fault(void **state)
{
	size_t n = 1;

	(void)state;
	for (;; n++) {
		struct buf out = BUF_INIT;
		int r;

		alloc_fail_at(n);
		r = render_once(&out);
		buf_fini(&out);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
	}
	assert_true(n > 5);
}

static void an_event_above_the_buffer_limit_fails_and_leaves_the_buffer_unchanged(void **state)
{
	struct message message = bare();
	struct buf out = { .limit = 100 };

	message.payload = BYTES("{\"a\":\"0123456789012345678901234567890123456789\"}");
	buf_add_str(&out, "before");
	assert_int_equal(event_render(*state, &message, &out, NULL), FAULT_MEMORY);
	assert_int_equal(out.length, strlen("before"));
	buf_fini(&out);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_tombstone_has_no_data),
		test(the_members_are_in_the_documented_order),
		test(an_event_without_a_type_has_its_topic_as_type),
		test(ids_sources_and_types_are_escaped),
		test(json_passes_through_byte_for_byte),
		test(line_breaks_between_tokens_become_spaces),
		test(a_payload_that_is_not_strict_json_is_base64),
		test(data_deeper_than_512_is_base64),
		test(the_content_type_is_that_of_the_producer),
		test(the_time_is_that_of_the_producer_or_of_kafka),
		test(an_attribute_that_cloudevents_does_not_allow_stays_a_header),
		test(an_attribute_of_an_envelope_that_cloudevents_does_not_allow_becomes_a_header),
		test(escapes_in_an_attribute_of_an_envelope_break_no_rule),
		test(a_key_that_is_not_utf8_is_base64),
		test(the_trace_context_comes_from_either_header),
		test(only_valid_ce_headers_become_attributes),
		test(headers_used_for_the_identity_are_not_repeated),
		test(the_last_value_of_a_repeated_attribute_counts),
		test(more_than_64_attributes_stay_headers),
		test(headers_are_read_as_postgresql_writes_them),
		test(malformed_stored_headers_are_omitted),
		test(headers_that_headers_encode_writes_can_be_read),
		test(a_structured_cloudevent_is_delivered_as_its_envelope),
		test(missing_members_of_an_envelope_are_added),
		test(an_envelope_keeps_its_partitionkey_but_not_the_coordinates),
		test(a_malformed_envelope_is_delivered_as_bytes),
		test(memory_of_one_event_is_reused_for_the_next),
		test(an_event_is_appended),
		test(every_failed_allocation_is_a_fault),
		test(an_event_above_the_buffer_limit_fails_and_leaves_the_buffer_unchanged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
