/* The handler protocol's lines: what is understood, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/text/utf8.h"
#include "dispatch/protocol/protocol.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct protocol_parser *parser;
static struct line line;

static int setup(void **state)
{
	(void)state;
	return protocol_parser_new(&parser, NULL);
}

static int teardown(void **state)
{
	(void)state;
	protocol_parser_free(parser);
	return 0;
}

/* The bytes are copied to the end of their own allocation, so that ASan sees a step too far. */
static void read_bytes(const void *bytes, size_t length)
{
	char *copy = malloc(length == 0 ? 1 : length);

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	assert_int_equal(protocol_parse(parser, (struct bytes){ copy, length }, &line, NULL), 0);
	free(copy);
}

static void read_text(const char *text)
{
	read_bytes(text, strlen(text));
}

static void assert_bytes(struct bytes bytes, const char *text)
{
	if (text == NULL) {
		assert_null(bytes.data);
		return;
	}
	assert_non_null(bytes.data);
	assert_int_equal(bytes.length, strlen(text));
	assert_memory_equal(bytes.data, text, bytes.length);
}

static const char *answer(const char *result)
{
	static char text[4096];

	(void)snprintf(
		text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"d1.1\",\"result\":%s}", result);
	return text;
}

static const char *hello(const char *more)
{
	static char text[4096];

	(void)snprintf(text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":"
		"{\"protocol\":[1],\"handler\":\"billing\"%s}}",
		more);
	return text;
}

static const char *repeated(const char *what, size_t times, const char *before, const char *after)
{
	static char text[4 * PROTOCOL_MAX_RESULT];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", before);

	for (size_t i = 0; i < times; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", what);
	(void)snprintf(text + used, sizeof(text) - used, "%s", after);
	return text;
}

/* Requests */

static void a_short_hello_has_the_defaults(void **state)
{
	(void)state;
	read_text(hello(""));
	assert_int_equal(line.kind, LINE_HELLO);
	assert_bytes(line.id, "1");
	assert_string_equal(line.hello.handler, "billing");
	assert_string_equal(line.hello.instance, "");
	assert_string_equal(line.hello.client, "");
	assert_int_equal(line.hello.max_in_flight, 64);
	assert_int_equal(line.hello.timeout_ms, -1);
	assert_int_equal(line.hello.batch_max, 1);
	assert_int_equal(line.hello.batch_wait_ms, 0);
	assert_false(line.hello.batch_ordered);
	assert_int_equal(line.hello.subscribe_count, 1);
	assert_null(line.hello.subscribe[0].topic);
	assert_null(line.hello.subscribe[0].type);
}

static void a_hello_with_every_member_is_read(void **state)
{
	(void)state;
	read_text("{\"params\":{\"client\":\"py/"
		  "1\",\"batch\":{\"wait_ms\":5,\"ordered\":true,\"max\":100},"
		  "\"timeout_ms\":1000,\"max_in_flight\":0,\"subscribe\":["
		  "{\"types\":[\"order.*\",\"paid\"],\"topic\":\"orders\"},{\"types\":[\"*\"]},"
		  "{\"topic\":\"p\"},{\"topic\":\"*\",\"types\":[]},{\"types\":null}],"
		  "\"instance\":\"pod-7\",\"handler\":\"b\\u00fc\",\"protocol\":[2,1,1e400]},"
		  "\"method\":\"hello\",\"id\":\"x\\n\",\"jsonrpc\":\"2.0\"}");
	assert_int_equal(line.kind, LINE_HELLO);
	assert_bytes(line.id, "\"x\\n\"");
	assert_string_equal(line.hello.handler, "bü");
	assert_string_equal(line.hello.instance, "pod-7");
	assert_string_equal(line.hello.client, "py/1");
	assert_int_equal(line.hello.max_in_flight, 0);
	assert_int_equal(line.hello.timeout_ms, 1000);
	assert_int_equal(line.hello.batch_max, 100);
	assert_int_equal(line.hello.batch_wait_ms, 5);
	assert_true(line.hello.batch_ordered);
	assert_int_equal(line.hello.subscribe_count, 6);
	assert_string_equal(line.hello.subscribe[0].topic, "orders");
	assert_string_equal(line.hello.subscribe[0].type, "order.*");
	assert_string_equal(line.hello.subscribe[1].topic, "orders");
	assert_string_equal(line.hello.subscribe[1].type, "paid");
	assert_null(line.hello.subscribe[2].topic);
	assert_null(line.hello.subscribe[2].type);
	assert_string_equal(line.hello.subscribe[3].topic, "p");
	assert_null(line.hello.subscribe[3].type);
	assert_null(line.hello.subscribe[4].topic);
	assert_null(line.hello.subscribe[5].topic);
}

static void null_and_unknown_members_count_as_not_given(void **state)
{
	(void)state;
	read_text(hello(",\"instance\":null,\"subscribe\":null,\"batch\":null,\"timeout_ms\":null,"
			"\"max_in_flight\":null,\"client\":null,\"delivery\":7,"
			"\"later\":{\"subscribe\":[[]],\"handler\":[1]},\"more\":[{\"a\":[]},2]"));
	assert_int_equal(line.kind, LINE_HELLO);
	assert_int_equal(line.hello.max_in_flight, 64);
	assert_int_equal(line.hello.subscribe_count, 1);
}

static void an_unknown_member_of_a_subscription_that_is_null_counts_as_not_given(void **state)
{
	(void)state;
	read_text(hello(",\"subscribe\":[{\"topic\":\"a\",\"topics\":null}]"));
	assert_int_equal(line.kind, LINE_HELLO);
	assert_string_equal(line.hello.subscribe[0].topic, "a");
}

static void a_refused_hello_keeps_the_handler_name(void **state)
{
	(void)state;
	read_text(hello(",\"subscribe\":[{\"topics\":\"a\"}]"));
	assert_int_equal(line.kind, LINE_INVALID);
	assert_string_equal(line.hello.handler, "billing");
}

static void extend_window_and_drain_are_read(void **state)
{
	(void)state;
	read_text("{\"jsonrpc\":\"2.0\",\"method\":\"extend\",\"params\":"
		  "{\"delivery\":\"d9001.2\",\"timeout_ms\":30000.0}}");
	assert_int_equal(line.kind, LINE_EXTEND);
	assert_string_equal(line.delivery, "d9001.2");
	assert_int_equal(line.timeout_ms, 30000);
	assert_bytes(line.id, NULL);
	read_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"window\",\"params\":"
		  "{\"max_in_flight\":1e2,\"protocol\":{},\"timeout_ms\":\"never\"}} \r");
	assert_int_equal(line.kind, LINE_WINDOW);
	assert_int_equal(line.max_in_flight, 100);
	assert_bytes(line.id, "7");
	read_text("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"drain\",\"params\":[],\"result\":"
		  "null}");
	assert_int_equal(line.kind, LINE_DRAIN);
	assert_bytes(line.id, "2");
}

/* Each row: a line, the error it gets, the id that is echoed, and words that must be in it. */
static void every_broken_line_is_refused_with_its_reason(void **state)
{
#define RPC "{\"jsonrpc\":\"2.0\","
	/* clang-format off */
	static const struct {
		const char *text;
		int code;
		const char *id;
		const char *words;
	} rows[] = {
		{ "", PROTOCOL_PARSE, NULL, "empty" },
		{ " \r", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "hello", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "{", PROTOCOL_PARSE, NULL, "premature EOF" },
		{ "{\"id\":12", PROTOCOL_PARSE, NULL, "premature EOF" },
		{ "{\"result\":{\"result\":12", PROTOCOL_PARSE, NULL, "premature EOF" },
		{ "{\"id\":\"ab", PROTOCOL_PARSE, NULL, "premature EOF" },
		{ "{\"a\":01}", PROTOCOL_PARSE, NULL, "near byte" },
		{ "{\"a\":NaN}", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "{\"a\":\"\t\"}", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "{'a':1}", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "{\"a\":1,}", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "{\"a\":1}//c", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ RPC "\"id\":1,\"method\":\"drain\"}{}", PROTOCOL_PARSE, NULL, "garbage" },
		{ RPC "\"id\":1,\"method\":\"drain\"}\"", PROTOCOL_PARSE, NULL, "garbage" },
		{ RPC "\"id\":1,\"method\":\"drain\"} nul", PROTOCOL_PARSE, NULL, "garbage" },
		{ RPC "\v\"id\":1}", PROTOCOL_PARSE, NULL, "vertical tab" },
		{ RPC "\f\"id\":1}", PROTOCOL_PARSE, NULL, "form feed" },
		{ "{\"a\":\"\xff\"}", PROTOCOL_PARSE, NULL, "UTF-8" },
		{ "{\"a\":\"\xed\xa0\x80\"}", PROTOCOL_PARSE, NULL, "UTF-8" },
		{ "{\"a\":\"\xc0\xaf\"}", PROTOCOL_PARSE, NULL, "UTF-8" },
		{ "\xef\xbb\xbf{}", PROTOCOL_PARSE, NULL, "not a JSON object" },
		{ "[]", PROTOCOL_INVALID_REQUEST, NULL, "batches" },
		{ " [{\"jsonrpc\"", PROTOCOL_INVALID_REQUEST, NULL, "batches" },
		{ "7 ", PROTOCOL_INVALID_REQUEST, NULL, "one JSON object" },
		{ "7", PROTOCOL_INVALID_REQUEST, NULL, "one JSON object" },
		{ "\"x\"", PROTOCOL_INVALID_REQUEST, NULL, "one JSON object" },
		{ "null", PROTOCOL_INVALID_REQUEST, NULL, "one JSON object" },
		{ "{}", PROTOCOL_INVALID_REQUEST, NULL, "jsonrpc must be \"2.0\"" },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST,
			"1", "jsonrpc must be" },
		{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST, "1",
			"jsonrpc must be a string" },
		{ RPC "\"id\":1}", PROTOCOL_INVALID_REQUEST, "1", "no method" },
		{ RPC "\"id\":1,\"error\":null}", PROTOCOL_INVALID_REQUEST, "1", "no method" },
		{ RPC "\"id\":1,\"method\":5}", PROTOCOL_INVALID_REQUEST, "1",
			"method must be a string" },
		{ RPC "\"id\":{},\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST, NULL,
			"id must be a string or a number" },
		{ RPC "\"id\":true,\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST, NULL,
			"id must be a string or a number" },
		{ RPC "\"id\":1,\"id\":2,\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST, "1",
			"id is given twice" },
		{ RPC "\"id\":1,\"method\":\"drain\",\"method\":\"drain\"}",
			PROTOCOL_INVALID_REQUEST, "1", "method is given twice" },
		{ RPC "\"method\":\"drain\"}", PROTOCOL_INVALID_REQUEST, NULL, "give it an id" },
		{ RPC "\"id\":null,\"method\":\"hello\",\"params\":[]}", PROTOCOL_INVALID_REQUEST,
			NULL, "hello is a request" },
		{ RPC "\"id\":1,\"method\":\"drain\",\"result\":{}}", PROTOCOL_INVALID_REQUEST, "1",
			"a request or an answer" },
		{ RPC "\"result\":{\"status\":\"done\"}}", PROTOCOL_INVALID_REQUEST, NULL,
			"needs the id" },
		{ RPC "\"error\":\"x\"}", PROTOCOL_INVALID_REQUEST, NULL, "needs the id" },
		{ "{\"id\":\"d1.1\",\"result\":{\"status\":\"done\"}}", PROTOCOL_INVALID_REQUEST,
			NULL, "jsonrpc must be" },
		{ RPC "\"id\":1,\"method\":\"subscribe\",\"params\":7}", PROTOCOL_UNKNOWN_METHOD,
			"1", "unknown method \"subscribe\"" },
		{ RPC "\"method\":\"\"}", PROTOCOL_UNKNOWN_METHOD, NULL, "unknown method \"\"" },
		{ RPC "\"method\":\"request.begin\",\"params\":{}}", PROTOCOL_INVALID_REQUEST,
			NULL, "request.begin is a request" },
		{ RPC "\"id\":1,\"method\":\"request.begin\"}", PROTOCOL_INVALID_PARAMS, "1",
			"params.lease_ms is missing" },
		{ RPC "\"id\":1,\"method\":\"request.complete\",\"params\":{\"status\":200}}",
			PROTOCOL_INVALID_PARAMS, "1", "params.token is missing" },
		{ RPC "\"id\":1,\"method\":\"request.fail\",\"params\":{\"token\":\"\",\"reason\":"
		      "\"\\u0000\"}}",
			PROTOCOL_INVALID_PARAMS, "1", "params cannot be stored" },
		{ RPC "\"id\":1,\"method\":\"result.get\",\"params\":{\"source\":1}}",
			PROTOCOL_INVALID_PARAMS, "1", "params.source must be a string" },
		{ RPC "\"id\":1,\"method\":\"result.get\"}", PROTOCOL_INVALID_PARAMS, "1",
			"params.source is missing" },
		{ RPC "\"id\":1,\"method\":\"result.get\",\"params\":{\"source\":\"s\"}}",
			PROTOCOL_INVALID_PARAMS, "1", "params.event_id is missing" },
		{ RPC "\"id\":1,\"method\":\"drain\\u0000\"}", PROTOCOL_UNKNOWN_METHOD, "1",
			"drain\\u0000" },
		{ RPC "\"id\":1,\"method\":\"\\udc00\"}", PROTOCOL_UNKNOWN_METHOD, "1", "\"?\"" },
		{ RPC "\"id\":1,\"method\":\"hello\"}", PROTOCOL_INVALID_PARAMS, "1",
			"params.protocol is missing" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":[1]}", PROTOCOL_INVALID_PARAMS, "1",
			"params must be an object" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":{},\"params\":{}}",
			PROTOCOL_INVALID_PARAMS, "1", "params is given twice" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1]}}",
			PROTOCOL_INVALID_PARAMS, "1", "params.handler is missing" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":{\"handler\":\"b\"}}",
			PROTOCOL_INVALID_PARAMS, "1", "params.protocol is missing" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[],\"handler\":\"b\"}" "}",
			PROTOCOL_NO_COMMON_VERSION, "1", "supported [1]" },
		{ RPC "\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[2,1.5],\"handler\":" "\"b\"}}",
			PROTOCOL_NO_COMMON_VERSION, "1", "supported [1]" },
		{ RPC "\"method\":\"extend\",\"params\":{\"timeout_ms\":1}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.delivery is missing" },
		{ RPC "\"method\":\"extend\",\"params\":{\"delivery\":\"d1.1\"}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.timeout_ms is missing" },
		{ RPC "\"method\":\"extend\",\"params\":{\"delivery\":1,\"timeout_ms\":1}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.delivery must be a string" },
		{ RPC "\"method\":\"extend\",\"params\":{\"delivery\":\"d\",\"timeout_ms\":0}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.timeout_ms must be a whole number" },
		{ RPC "\"method\":\"window\"}", PROTOCOL_INVALID_PARAMS, NULL,
			"params.max_in_flight is missing" },
		{ RPC "\"method\":\"window\",\"params\":{\"max_in_flight\":-1}}",
			PROTOCOL_INVALID_PARAMS, NULL, "from 0 to 1000000" },
		{ RPC "\"method\":\"window\",\"params\":{\"max_in_flight\":\"5\"}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.max_in_flight must be a number" },
		{ RPC "\"method\":\"window\",\"params\":{\"max_in_flight\":1,\"max_in_flight\":2}}",
			PROTOCOL_INVALID_PARAMS, NULL, "params.max_in_flight is given twice" },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		read_text(rows[i].text);
		if (line.kind != LINE_INVALID || line.error_code != rows[i].code ||
			strstr(line.error_text, rows[i].words) == NULL)
			fail_msg("%s: kind %d, %d %s", rows[i].text, line.kind, line.error_code,
				line.error_text);
		assert_bytes(line.id, rows[i].id);
		assert_false(line.close);
	}
}

/* Each row: members of a hello beside protocol and handler, and the words they are refused with. */
static void every_bad_parameter_of_hello_is_named(void **state)
{
	/* clang-format off */
	static const struct {
		const char *members;
		const char *words;
	} rows[] = {
		{ ",\"handler\":\"b\"", "params.handler is given twice" },
		{ ",\"instance\":7", "params.instance must be a string" },
		{ ",\"instance\":\"a\\u0000b\"", "params.instance must have 0 to 255 bytes" },
		{ ",\"instance\":\"a\\nb\"", "no control characters" },
		{ ",\"client\":\"\\udc00\"", "params.client must have" },
		{ ",\"client\":[]", "params.client must be a string" },
		{ ",\"max_in_flight\":-1", "params.max_in_flight must be a whole number from 0" },
		{ ",\"max_in_flight\":1000001", "to 1000000" },
		{ ",\"max_in_flight\":99999999999999999999", "params.max_in_flight" },
		{ ",\"max_in_flight\":-1e999", "params.max_in_flight" },
		{ ",\"max_in_flight\":1.5", "whole number" },
		{ ",\"max_in_flight\":true", "params.max_in_flight must be a number" },
		{ ",\"timeout_ms\":0", "params.timeout_ms must be a whole number from 1" },
		{ ",\"timeout_ms\":1e400000", "params.timeout_ms" },
		{ ",\"timeout_ms\":\"30s\"", "params.timeout_ms must be a number" },
		{ ",\"batch\":5", "params.batch must be an object" },
		{ ",\"batch\":{\"max\":0}", "params.batch.max must be a whole number from 1" },
		{ ",\"batch\":{\"max\":10001}", "to 10000" },
		{ ",\"batch\":{\"wait_ms\":-1}", "params.batch.wait_ms must be" },
		{ ",\"batch\":{\"wait_ms\":60001}", "to 60000" },
		{ ",\"batch\":{\"wait_ms\":[]}", "params.batch.wait_ms must be a number" },
		{ ",\"batch\":{\"ordered\":1}", "params.batch.ordered must be true or false" },
		{ ",\"batch\":{\"ordered\":\"true\"}", "params.batch.ordered must be true" },
		{ ",\"subscribe\":{}", "params.subscribe must be an array" },
		{ ",\"subscribe\":\"orders\"", "params.subscribe must be an array" },
		{ ",\"subscribe\":[\"orders\"]", "params.subscribe[] must be an object" },
		{ ",\"subscribe\":[null]", "params.subscribe[] must be an object" },
		{ ",\"subscribe\":[[]]", "params.subscribe[] must be an object" },
		{ ",\"subscribe\":[{\"topic\":5}]", "params.subscribe[].topic must be a string" },
		{ ",\"subscribe\":[{\"topic\":\"\"}]", "params.subscribe[].topic must have 1" },
		{ ",\"subscribe\":[{\"topic\":\"ord*\"}]", "patterns are for types" },
		{ ",\"subscribe\":[{\"topic\":\"a\",\"topic\":\"b\"}]", "is given twice" },
		{ ",\"subscribe\":[{\"topics\":\"a\"}]",
			"params.subscribe[] has no member \"topics\"; did you mean \"topic\"?" },
		{ ",\"subscribe\":[{\"topic\":\"a\",\"type\":[\"t\"]}]",
			"params.subscribe[] has no member \"type\"; did you mean \"types\"?" },
		{ ",\"subscribe\":[{\"typ\\u0065\":{\"topic\":\"a\"}}]",
			"has no member \"type\"; did you mean" },
		{ ",\"subscribe\":[{\"partition\":7}]",
			"has no member \"partition\": there are topic and types" },
		{ ",\"subscribe\":[{\"\":true}]", "has no member \"\": there are" },
		{ ",\"subscribe\":[{\"types\":\"a\"}]", "types must be an array" },
		{ ",\"subscribe\":[{\"types\":[5]}]", "types[] must be a string" },
		{ ",\"subscribe\":[{\"types\":[null]}]", "types[] must be a string" },
		{ ",\"subscribe\":[{\"types\":[\"\"]}]", "types[] must have 1 to 1024 bytes" },
		{ ",\"subscribe\":[{\"types\":[\"a\\u0000\"]}]", "types[] must have" },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		read_text(hello(rows[i].members));
		if (line.kind != LINE_INVALID || line.error_code != PROTOCOL_INVALID_PARAMS ||
			strstr(line.error_text, rows[i].words) == NULL)
			fail_msg("%s: kind %d, %d %s", rows[i].members, line.kind, line.error_code,
				line.error_text);
		assert_bytes(line.id, "1");
	}
}

static void a_protocol_list_of_the_wrong_kind_is_named(void **state)
{
	(void)state;
	read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":"
		  "{\"protocol\":1,\"handler\":\"b\"}}");
	assert_non_null(strstr(line.error_text, "params.protocol must be an array"));
	read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":"
		  "{\"protocol\":[\"1\"],\"handler\":\"b\"}}");
	assert_non_null(strstr(line.error_text, "params.protocol[] must be a number"));
	assert_int_equal(line.error_code, PROTOCOL_INVALID_PARAMS);
}

static void another_framing_is_named_and_closes_the_connection(void **state)
{
	static const char *const rows[] = { "Content-Length: 52\r", "content-length:9",
		"Content-Type: application/json" };

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		read_text(rows[i]);
		assert_int_equal(line.kind, LINE_INVALID);
		assert_int_equal(line.error_code, PROTOCOL_PARSE);
		assert_non_null(strstr(line.error_text, "Content-Length"));
		assert_true(line.close);
	}
}

static void names_subscriptions_and_types_have_their_limits(void **state)
{
	(void)state;
	read_text(repeated("h", PROTOCOL_MAX_NAME,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1],"
		"\"handler\":\"",
		"\"}}"));
	assert_int_equal(line.kind, LINE_HELLO);
	read_text(repeated("h", PROTOCOL_MAX_NAME + 1,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1],"
		"\"handler\":\"",
		"\"}}"));
	assert_non_null(strstr(line.error_text, "params.handler must have 1 to 255 bytes"));
	read_text(repeated(",\"t\"", PROTOCOL_MAX_SUBS - 1,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1],"
		"\"handler\":\"h\",\"subscribe\":[{\"types\":[\"t\"",
		"]}]}}"));
	assert_int_equal(line.kind, LINE_HELLO);
	assert_int_equal(line.hello.subscribe_count, PROTOCOL_MAX_SUBS);
	assert_string_equal(line.hello.subscribe[PROTOCOL_MAX_SUBS - 1].type, "t");
	read_text(repeated(",{}", PROTOCOL_MAX_SUBS,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":[1],"
		"\"handler\":\"h\",\"subscribe\":[{}",
		"]}}"));
	assert_int_equal(line.error_code, PROTOCOL_INVALID_PARAMS);
	assert_non_null(strstr(line.error_text, "more than 1000 subscriptions"));
}

static void an_id_too_long_is_not_echoed(void **state)
{
	(void)state;
	read_text(repeated("i", PROTOCOL_MAX_ID - 2,
		"{\"jsonrpc\":\"2.0\",\"method\":\"drain\",\"id\":\"", "\"}"));
	assert_int_equal(line.kind, LINE_DRAIN);
	assert_int_equal(line.id.length, PROTOCOL_MAX_ID);
	read_text(repeated("i", PROTOCOL_MAX_ID - 1,
		"{\"jsonrpc\":\"2.0\",\"method\":\"drain\",\"id\":\"", "\"}"));
	assert_int_equal(line.error_code, PROTOCOL_INVALID_REQUEST);
	assert_non_null(strstr(line.error_text, "id is longer than 256 bytes"));
	assert_bytes(line.id, NULL);
}

static void nesting_is_limited(void **state)
{
	const char *before = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"drain\",\"x\":";
	char *deepest;

	(void)state;
	deepest = strdup(repeated("[", PROTOCOL_MAX_DEPTH - 1, before, ""));
	assert_non_null(deepest);
	read_text(repeated("]", PROTOCOL_MAX_DEPTH - 1, deepest, "}"));
	free(deepest);
	assert_int_equal(line.kind, LINE_DRAIN);
	read_text(repeated("[", 1000000, before, ""));
	assert_int_equal(line.error_code, PROTOCOL_INVALID_REQUEST);
	assert_non_null(strstr(line.error_text, "deeper than 512"));
}

/* Answers */

static const struct verdict *only_verdict(void)
{
	assert_int_equal(line.kind, LINE_ANSWER);
	assert_int_equal(line.verdict_count, 1);
	assert_false(line.batch_answer);
	return &line.verdicts[0];
}

static void a_done_answer_has_its_result_unchanged(void **state)
{
	static const char *const results[] = {
		"{\"a\" : [1.00, 1e2,\"\\u00fc\\\\\",{}],\"a\":true}", "[]", "{}", "12.500", "-0",
		"\"text \\\"quoted\\\"\"", "\"\"", "true", "false", "\"\\ud83d\\ude00\"",
		"\"\\\\u0000\"", "[[[{\"result\":{\"status\":1}}]]]"
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < COUNT(results); i++) {
		(void)snprintf(
			text, sizeof(text), "{\"status\":\"done\" , \"result\" : %s }", results[i]);
		read_text(answer(text));
		assert_string_equal(line.delivery, "d1.1");
		assert_int_equal(only_verdict()->status, STATUS_DONE);
		assert_int_equal(only_verdict()->delay_ms, -1);
		assert_bytes(only_verdict()->result, results[i]);
		assert_bytes(only_verdict()->entry, NULL);
		assert_bytes(only_verdict()->reason, NULL);
		assert_null(only_verdict()->note);
		assert_bytes(line.id, NULL);
	}
}

static void a_result_is_one_line(void **state)
{
	(void)state;
	read_text(answer("{\"status\":\"done\",\"result\":{\"a\"\r:\n1}}"));
	assert_bytes(only_verdict()->result, "{\"a\" : 1}");
}

static void a_null_result_counts_as_not_given(void **state)
{
	(void)state;
	read_text(answer("{\"status\":\"done\",\"result\":null,\"reason\":null,\"code\":null,"
			 "\"delay_ms\":null}"));
	assert_int_equal(only_verdict()->status, STATUS_DONE);
	assert_bytes(only_verdict()->result, NULL);
	assert_bytes(only_verdict()->reason, NULL);
}

static void each_status_is_read_with_its_members(void **state)
{
	(void)state;
	read_text(answer("{\"status\":\"retry\",\"delay_ms\":60000,\"reason\":\"upstream 503\","
			 "\"code\":\"UPSTREAM\",\"result\":{}}"));
	assert_int_equal(only_verdict()->status, STATUS_RETRY);
	assert_int_equal(only_verdict()->delay_ms, 60000);
	assert_bytes(only_verdict()->reason, "upstream 503");
	assert_bytes(only_verdict()->code, "UPSTREAM");
	assert_bytes(only_verdict()->result, NULL);
	read_text(answer("{\"status\":\"dead\",\"reason\":\"schema v9 unknown\"}"));
	assert_int_equal(only_verdict()->status, STATUS_DEAD);
	assert_bytes(only_verdict()->reason, "schema v9 unknown");
	assert_bytes(only_verdict()->code, NULL);
	read_text(answer("{\"status\":\"snooze\",\"delay_ms\":0}"));
	assert_int_equal(only_verdict()->status, STATUS_SNOOZE);
	assert_int_equal(only_verdict()->delay_ms, 0);
	read_text(answer("{\"unknown\":{},\"status\":\"settled\"}"));
	assert_int_equal(only_verdict()->status, STATUS_SETTLED);
	read_text(answer("{\"status\":\"skipped\"}"));
	assert_int_equal(only_verdict()->status, STATUS_SKIPPED);
}

static void a_delay_is_cut_to_a_year_and_to_whole_milliseconds(void **state)
{
	static const struct {
		const char *written;
		int64_t taken;
	} rows[] = { { "1500.9", 1500 }, { "1e3", 1000 }, { "-0", 0 }, { "-0.5", 0 },
		{ "31622400001", PROTOCOL_MAX_DELAY_MS }, { "1e400000", PROTOCOL_MAX_DELAY_MS },
		{ "99999999999999999999999999", PROTOCOL_MAX_DELAY_MS } };
	char text[128];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		(void)snprintf(text, sizeof(text), "{\"status\":\"retry\",\"delay_ms\":%s}",
			rows[i].written);
		read_text(answer(text));
		assert_int_equal(only_verdict()->delay_ms, rows[i].taken);
	}
}

static void a_malformed_answer_is_a_retry_with_its_reason(void **state)
{
	/* clang-format off */
	static const struct {
		const char *result;
		const char *words;
	} rows[] = {
		{ "null", "must be an object with a status" },
		{ "true", "result must be an object" },
		{ "\"done\"", "result must be an object" },
		{ "[]", "result must be an object" },
		{ "{}", "has no status" },
		{ "{\"status\":null}", "has no status" },
		{ "{\"status\":\"ok\"}", "unknown status \"ok\"" },
		{ "{\"status\":\"done\\u0000\"}", "unknown status" },
		{ "{\"status\":\"Done\"}", "done, retry, dead, snooze, settled or skipped" },
		{ "{\"status\":1}", "result.status must be a string" },
		{ "{\"status\":\"done\",\"status\":\"dead\"}", "result.status is given twice" },
		{ "{\"status\":\"retry\",\"delay_ms\":-1}", "delay_ms must not be negative" },
		{ "{\"status\":\"retry\",\"delay_ms\":-1e999}", "must not be negative" },
		{ "{\"status\":\"retry\",\"delay_ms\":\"5s\"}", "delay_ms must be a number" },
		{ "{\"status\":\"retry\",\"reason\":{}}", "result.reason must be a string" },
		{ "{\"status\":\"retry\",\"code\":503}", "result.code must be a string" },
		{ "{\"status\":\"done\",\"emit\":{}}", "result.emit must be an array" },
		{ "{\"status\":\"done\",\"emit\":[{},7]}", "emit[] must be an object" },
		{ "{\"status\":\"done\",\"emit\":[null]}", "emit[] must be an object" },
		{ "{\"status\":\"done\",\"emit\":[],\"emit\":[]}", "result.emit is given twice" },
		{ "{\"emit\":[{}],\"status\":\"settled\"}", "inbox.complete(claim, result, emit)" },
		{ "{\"status\":\"dead\",\"emit\":[{}]}", "only done can emit" },
		{ "{\"status\":\"retry\",\"emit\":[{}]}", "only done can emit" },
		{ "{\"status\":\"skipped\",\"emit\":[{}]}", "only done can emit" },
		{ "{\"entries\":{}}", "result.entries must be an array" },
		{ "{\"entries\":[],\"status\":\"done\"}", "both a status and entries" },
		{ "{\"entries\":[],\"emit\":[{}]}", "both events and entries" },
		{ "{\"entries\":[],\"entries\":[]}", "result.entries is given twice" },
		{ "{\"status\":\"done\"},\"result\":{}", "result is given twice" },
		{ "{\"status\":\"done\"},\"error\":{\"message\":\"x\"}",
			"both a result and an error" },
		{ "{\"status\":\"done\"},\"error\":\"x\"", "error must be an object" },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct verdict *verdict;

		read_text(answer(rows[i].result));
		verdict = only_verdict();
		if (verdict->status != STATUS_RETRY ||
			strstr(verdict->reason.data, rows[i].words) == NULL)
			fail_msg("%s: %d %s", rows[i].result, verdict->status,
				(const char *)verdict->reason.data);
		assert_bytes(verdict->code, "PROTOCOL");
		assert_int_equal(verdict->delay_ms, -1);
	}
}

static void an_error_is_a_retry_with_its_message(void **state)
{
	(void)state;
	read_text(RPC "\"id\":\"d9.2\",\"result\":null,\"error\":{\"code\":-32000,"
		      "\"message\":\"ValueError: \\u2713\",\"data\":{\"code\":\"PARSE\"}}}");
	assert_string_equal(line.delivery, "d9.2");
	assert_int_equal(only_verdict()->status, STATUS_RETRY);
	assert_bytes(only_verdict()->reason, "ValueError: ✓");
	assert_bytes(only_verdict()->code, "PARSE");
	read_text(RPC "\"id\":\"d9.2\",\"error\":{\"code\":1,\"data\":[{\"code\":1}]}}");
	assert_bytes(only_verdict()->reason, "an error without a message");
	assert_bytes(only_verdict()->code, "HANDLER_ERROR");
	read_text(RPC "\"id\":\"d9.2\",\"error\":{\"message\":\"m\",\"data\":{\"code\":7}}}");
	assert_bytes(only_verdict()->code, "HANDLER_ERROR");
	read_text(RPC "\"id\":\"d9.2\",\"error\":{\"message\":7}}");
	assert_bytes(only_verdict()->code, "PROTOCOL");
	assert_bytes(only_verdict()->reason, "error.message must be a string");
	read_text(RPC "\"id\":\"d9.2\",\"error\":true}");
	assert_bytes(only_verdict()->code, "PROTOCOL");
}

static void the_events_of_an_answer_are_as_they_were_written(void **state)
{
	static const char events[] = "[ {\"topic\" : \"t\",\"data\":[1.50,{\"emit\":[7]}]},{}]";
	char text[256];

	(void)state;
	(void)snprintf(
		text, sizeof(text), "{\"emit\":%s,\"status\":\"done\",\"result\":1}", events);
	read_text(answer(text));
	assert_int_equal(only_verdict()->status, STATUS_DONE);
	assert_bytes(only_verdict()->emit, events);
	assert_bytes(only_verdict()->result, "1");
	(void)snprintf(text, sizeof(text),
		"{\"entries\":[{\"id\":\"d1.1\",\"status\":\"done\"},"
		"{\"id\":\"d2.1\",\"status\":\"done\",\"emit\":%s},"
		"{\"id\":\"d3.1\",\"status\":\"done\",\"emit\":7}]}",
		events);
	read_text(answer(text));
	assert_bytes(line.verdicts[0].emit, NULL);
	assert_bytes(line.verdicts[1].emit, events);
	assert_bytes(line.verdicts[2].emit, NULL);
	assert_bytes(line.verdicts[2].reason, "result.entries[].emit must be an array");
}

static void no_events_are_the_same_as_no_member(void **state)
{
	(void)state;
	read_text(answer("{\"status\":\"settled\",\"emit\":[]}"));
	assert_int_equal(only_verdict()->status, STATUS_SETTLED);
	read_text(answer("{\"status\":\"done\",\"emit\":null}"));
	assert_int_equal(only_verdict()->status, STATUS_DONE);
	assert_bytes(only_verdict()->emit, NULL);
}

static void an_answer_has_at_most_a_thousand_events(void **state)
{
	static const char start[] =
		RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"done\",\"emit\":[{}";

	(void)state;
	read_text(repeated(",{}", PROTOCOL_MAX_EMIT - 1, start, "]}}"));
	assert_int_equal(only_verdict()->status, STATUS_DONE);
	assert_int_equal(only_verdict()->emit.length, 3 * PROTOCOL_MAX_EMIT + 1);
	read_text(repeated(",{}", PROTOCOL_MAX_EMIT, start, "]}}"));
	assert_bytes(only_verdict()->code, "PROTOCOL");
	assert_bytes(only_verdict()->reason, "emit[] are more than 1000 events");
}

static void an_answer_with_any_id_keeps_the_id(void **state)
{
	static const struct {
		const char *written;
		const char *taken;
	} rows[] = { { "17", "17" }, { "-1.50e3", "-1.50e3" }, { "null", "null" }, { "\"\"", "" },
		{ "\"d1.1\\u0000x\"", "\"d1.1\\u0000x\"" }, { "\"b7\"", "b7" },
		{ "\"d\\u0031.1\"", "d1.1" } };
	char text[128];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		(void)snprintf(text, sizeof(text),
			RPC "\"result\":{\"status\":\"done\"},\"id\":%s}", rows[i].written);
		read_text(text);
		assert_int_equal(line.kind, LINE_ANSWER);
		assert_string_equal(line.delivery, rows[i].taken);
	}
}

static void a_batch_answer_has_a_verdict_for_each_entry_with_an_id(void **state)
{
	(void)state;
	read_text(answer("{\"entries\":[{\"id\":\"d1.1\",\"status\":\"done\",\"result\":{\"n\":1}},"
			 "{\"status\":\"retry\",\"delay_ms\":5,\"id\":\"d2.1\",\"reason\":\"r\"},"
			 "{\"id\":\"d3.1\",\"status\":\"gone\"},{\"id\":\"d4.1\"},"
			 "{\"status\":\"done\"},{\"id\":5,\"status\":\"done\"},7,null,[[]],"
			 "{\"id\":\"d5.1\",\"status\":\"dead\",\"code\":5},"
			 "{\"id\":\"d6.1\",\"status\":\"done\",\"result\":\"\\u0000\"}]}"));
	assert_int_equal(line.kind, LINE_ANSWER);
	assert_true(line.batch_answer);
	assert_int_equal(line.verdict_count, 6);
	assert_bytes(line.verdicts[0].entry, "d1.1");
	assert_bytes(line.verdicts[0].result, "{\"n\":1}");
	assert_bytes(line.verdicts[1].entry, "d2.1");
	assert_int_equal(line.verdicts[1].status, STATUS_RETRY);
	assert_int_equal(line.verdicts[1].delay_ms, 5);
	assert_bytes(line.verdicts[1].reason, "r");
	assert_bytes(line.verdicts[2].code, "PROTOCOL");
	assert_bytes(line.verdicts[3].code, "PROTOCOL");
	assert_bytes(line.verdicts[4].entry, "d5.1");
	assert_bytes(line.verdicts[4].reason, "result.entries[].code must be a string");
	assert_int_equal(line.verdicts[5].status, STATUS_DONE);
	assert_non_null(line.verdicts[5].note);
	read_text(answer("{\"entries\":[]}"));
	assert_true(line.batch_answer);
	assert_int_equal(line.verdict_count, 0);
}

static void a_batch_answer_has_at_most_the_entries_of_the_largest_batch(void **state)
{
	(void)state;
	read_text(repeated(",{\"id\":\"d1.1\",\"status\":\"done\"}", PROTOCOL_MAX_BATCH - 1,
		RPC "\"id\":\"b1\",\"result\":{\"entries\":[{\"id\":\"d0.1\",\"status\":\"done\"}",
		"]}}"));
	assert_int_equal(line.verdict_count, PROTOCOL_MAX_BATCH);
	assert_bytes(line.verdicts[PROTOCOL_MAX_BATCH - 1].entry, "d1.1");
	read_text(repeated(",{\"id\":\"d1.1\",\"status\":\"done\"}", (size_t)2 * PROTOCOL_MAX_BATCH,
		RPC "\"id\":\"b1\",\"result\":{\"entries\":[{\"id\":\"d0.1\",\"status\":\"done\"}",
		"]}}"));
	assert_bytes(only_verdict()->code, "PROTOCOL");
	assert_non_null(strstr(only_verdict()->reason.data, "more than the 10000"));
}

/* What the table cannot take */

static void a_result_that_jsonb_refuses_is_replaced_by_a_note(void **state)
{
	/* clang-format off */
	static const struct {
		const char *result;
		const char *why; /* NULL = it is stored */
	} rows[] = {
		{ "\"\\u0000\"", "NUL" },
		{ "{\"a\\u0000\":1}", "NUL" },
		{ "[\"\\\\\\u0000\"]", "NUL" },
		{ "\"\\ud800\"", "surrogate" },
		{ "\"\\ud800\\n\"", "surrogate" },
		{ "\"\\ud800x\"", "surrogate" },
		{ "\"\\udc00\"", "surrogate" },
		{ "\"\\uDBFF\\uDBFF\"", "surrogate" },
		{ "\"\\ud800\\u0041\"", "surrogate" },
		{ "\"\\uD83D\\uDE00\\u0001\\/\"", NULL },
		{ "1e131071", NULL },
		{ "1e131072", "numeric" },
		{ "-1E+131072", "numeric" },
		{ "0.1e131072", NULL },
		{ "0.1e131073", "numeric" },
		{ "0.0001e131075", NULL },
		{ "1e400000", "numeric" },
		{ "0e400000", NULL },
		{ "0e1073741822", NULL },
		{ "0e1073741823", "numeric" },
		{ "0e99999999999999999999999999999", "numeric" },
		{ "1e-99999999999999999999999999999", "numeric" },
		{ "1e-16383", NULL },
		{ "1e-16384", "numeric" },
		{ "0e-16384", "numeric" },
		{ "1.5e-16383", "numeric" },
		{ "{\"a\":[1,{\"b\":1e999999}]}", "numeric" },
		{ "\"1e999999\"", NULL },
	};
	/* clang-format on */
	char text[256];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		(void)snprintf(
			text, sizeof(text), "{\"status\":\"done\",\"result\":%s}", rows[i].result);
		read_text(answer(text));
		assert_int_equal(only_verdict()->status, STATUS_DONE);
		if (rows[i].why == NULL) {
			assert_bytes(only_verdict()->result, rows[i].result);
			assert_null(only_verdict()->note);
			continue;
		}
		if (only_verdict()->note == NULL ||
			strstr(only_verdict()->note, rows[i].why) == NULL)
			fail_msg("%s: %s", rows[i].result, only_verdict()->note);
		assert_memory_equal(
			only_verdict()->result.data, "{\"inboxd\":\"result not stored: ", 30);
	}
}

static void a_result_over_its_limit_is_replaced_by_a_note(void **state)
{
	(void)state;
	read_text(repeated("x", PROTOCOL_MAX_RESULT - 2,
		RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"done\",\"result\":\"", "\"}}"));
	assert_int_equal(only_verdict()->result.length, PROTOCOL_MAX_RESULT);
	assert_null(only_verdict()->note);
	read_text(repeated("x", PROTOCOL_MAX_RESULT - 1,
		RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"done\",\"result\":\"", "\"}}"));
	assert_int_equal(only_verdict()->status, STATUS_DONE);
	assert_string_equal(
		only_verdict()->note, "result not stored: it is longer than 1048576 bytes");
	assert_bytes(only_verdict()->result,
		"{\"inboxd\":\"result not stored: it is longer than 1048576 bytes\"}");
}

static void texts_that_cannot_be_stored_are_replaced_by_a_note(void **state)
{
	(void)state;
	read_text(answer("{\"status\":\"dead\",\"reason\":\"a\\u0000b\",\"code\":\"\\udc00\"}"));
	assert_int_equal(only_verdict()->status, STATUS_DEAD);
	assert_non_null(strstr(only_verdict()->note, "reason not stored: it holds a NUL"));
	assert_memory_equal(only_verdict()->reason.data, "reason not stored: ", 19);
	assert_memory_equal(only_verdict()->code.data, "code not stored: ", 17);
	assert_true(only_verdict()->code.length <= PROTOCOL_MAX_CODE);
	read_text(RPC "\"id\":\"d1.1\",\"error\":{\"message\":\"\\u0000\"}}");
	assert_memory_equal(only_verdict()->reason.data, "message not stored: ", 20);
}

static void long_texts_are_cut_at_a_character(void **state)
{
	(void)state;
	read_text(repeated("ü", PROTOCOL_MAX_REASON,
		RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"retry\",\"reason\":\"x", "\"}}"));
	assert_int_equal(only_verdict()->reason.length, PROTOCOL_MAX_REASON - 1);
	assert_true(utf8_is_valid(only_verdict()->reason));
	read_text(repeated("😀", PROTOCOL_MAX_CODE,
		RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"retry\",\"code\":\"x", "\"}}"));
	assert_int_equal(only_verdict()->code.length, PROTOCOL_MAX_CODE - 3);
	assert_true(utf8_is_valid(only_verdict()->code));
	assert_null(only_verdict()->note);
}

static void an_error_text_stays_utf8_when_it_is_cut(void **state)
{
	(void)state;
	read_text(repeated("ü", 3000, RPC "\"id\":1,\"method\":\"x", "\"}"));
	assert_int_equal(line.error_code, PROTOCOL_UNKNOWN_METHOD);
	assert_true(utf8_is_valid(bytes_of(line.error_text)));
}

/* Lines out */

static void assert_written(struct buf *out, const char *text)
{
	assert_string_equal(buf_str(out), text);
	buf_fini(out);
}

static void replies_are_one_line_each(void **state)
{
	const struct subscription everything = { NULL, NULL };
	const struct hello_reply reply = { "s42", 30000, 10, "", ORDERING_KEY, &everything, 1 };
	struct buf out = BUF_INIT;

	(void)state;
	protocol_add_hello_reply(&out, bytes_of("1"), &reply);
	protocol_add_drain_reply(&out, bytes_of("\"x\""), 0);
	protocol_add_empty_reply(&out, bytes_of("3"));
	protocol_add_cancel(&out, "d9.1", "timeout");
	assert_written(&out,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":1,\"session\":\"s42\","
		"\"max_line_bytes\":33554432,\"timeout_ms\":30000,\"max_attempts\":10,\"ordering\":"
		"\"key\","
		"\"subscribe\":[{\"topic\":\"*\",\"types\":[\"*\"]}]}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"in_flight\":0}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"delivery\":\"d9.1\","
		"\"reason\":\"timeout\"}}\n");
}

static void the_hello_reply_repeats_the_subscriptions(void **state)
{
	const struct subscription items[] = { { "orders", "order.*" }, { "orders", "paid" },
		{ "payments", NULL }, { NULL, "\"q\"" }, { NULL, NULL } };
	const struct hello_reply reply = { "s", 1, 1, "", ORDERING_NONE, items, 5 };
	struct buf out = BUF_INIT;

	(void)state;
	protocol_add_hello_reply(&out, bytes_of("1"), &reply);
	assert_non_null(strstr(buf_str(&out),
		"\"subscribe\":[{\"topic\":\"orders\",\"types\":[\"order.*\",\"paid\"]},"
		"{\"topic\":\"payments\",\"types\":[\"*\"]},"
		"{\"topic\":\"*\",\"types\":[\"\\\"q\\\"\",\"*\"]}]}}\n"));
	buf_fini(&out);
}

/* Names of the greatest length, as many as there may be. */
static void the_hello_reply_counts_omitted_subscriptions(void **state)
{
	static char type[PROTOCOL_MAX_TYPE + 1];
	static struct subscription items[PROTOCOL_MAX_SUBS];
	const struct hello_reply reply = { "s", 1, 1, "billing", ORDERING_PARTITION, items,
		PROTOCOL_MAX_SUBS };
	struct buf out = BUF_INIT;
	const char *omitted;

	(void)state;
	memset(type, 'x', PROTOCOL_MAX_TYPE);
	for (size_t i = 0; i < PROTOCOL_MAX_SUBS; i++)
		items[i] = (struct subscription){ i % 2 == 0 ? "even" : "odd", type };
	protocol_add_hello_reply(&out, bytes_of("1"), &reply);
	assert_in_range(out.length, PROTOCOL_MAX_ECHO, PROTOCOL_MAX_ECHO + 2048);
	omitted = strstr(buf_str(&out), "]}],\"subscribe_omitted\":");
	assert_non_null(omitted);
	assert_int_equal(strtol(omitted + strlen("]}],\"subscribe_omitted\":"), NULL, 10),
		PROTOCOL_MAX_SUBS - 16);
	buf_fini(&out);
}

static void an_error_reply_escapes_its_text(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	protocol_add_error(&out, bytes_of(NULL), PROTOCOL_PARSE, "no \"quotes\"\n\xc3");
	assert_written(&out, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
			     "\"message\":\"no \\\"quotes\\\"\\n\"}}\n");
}

static const struct delivery_head head = {
	.id = "d9001.2",
	.claim = "9001.2.17",
	.seq = INT64_MIN,
	.consumer = "",
	.attempt = 2,
	.max_attempts = 10,
	.deadline_unix_ms = 1795239720000,
	.replay = true,
};

static void a_delivery_is_one_line(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	protocol_add_deliver(&out, &head, bytes_of("\"event\":{},\"headers\":[]"));
	assert_written(&out,
		"{\"jsonrpc\":\"2.0\",\"id\":\"d9001.2\",\"method\":\"deliver\",\"params\":"
		"{\"delivery\":{\"claim\":\"9001.2.17\",\"seq\":\"-9223372036854775808\","
		"\"attempt\":2,\"max_attempts\":10,\"deadline\":\"2026-11-21T05:42:00.000Z\","
		"\"replay\":true},\"event\":{},\"headers\":[]}}\n");
}

static void a_batch_is_one_line_with_its_entries(void **state)
{
	struct delivery_head second = head;
	struct buf out = BUF_INIT;

	(void)state;
	second.id = "d7.1";
	second.seq = 7;
	second.consumer = "billing";
	second.replay = false;
	protocol_begin_batch(&out, "b1");
	protocol_add_entry(&out, true, &head, bytes_of("\"event\":1"));
	protocol_add_entry(&out, false, &second, bytes_of("\"event\":2"));
	protocol_end_batch(&out);
	assert_written(&out,
		"{\"jsonrpc\":\"2.0\",\"id\":\"b1\",\"method\":\"deliver_batch\",\"params\":"
		"{\"entries\":[{\"id\":\"d9001.2\",\"delivery\":{\"claim\":\"9001.2.17\","
		"\"seq\":\"-9223372036854775808\",\"attempt\":2,\"max_attempts\":10,"
		"\"deadline\":\"2026-11-21T05:42:00.000Z\",\"replay\":true},\"event\":1},"
		"{\"id\":\"d7.1\",\"delivery\":{\"claim\":\"9001.2.17\",\"seq\":\"7\","
		"\"consumer\":\"billing\",\"attempt\":2,\"max_attempts\":10,\"deadline\":\"2026-11-"
		"21T05:42:00.000Z\","
		"\"replay\":false},\"event\":2}]}}\n");
}

/* Memory and noise */

static void parsed_values_survive_the_line_but_not_the_next_one(void **state)
{
	char text[] = RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"done\",\"result\":[1]}}";

	(void)state;
	read_text(text);
	memset(text, 'x', sizeof(text) - 1);
	assert_string_equal(line.delivery, "d1.1");
	assert_bytes(only_verdict()->result, "[1]");
	read_text("{}");
	assert_int_equal(line.kind, LINE_INVALID);
	assert_null(line.verdicts);
}

/* Lines that need every kind of memory: chunks, large blocks, their growth, yajl's own. */
static const char *greedy_line(int which)
{
	switch (which) {
	case 0:
		return repeated("\\n", 20000,
			RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"retry\",\"reason\":\"",
			"\"}}");
	case 1:
		return repeated(",{\"id\":\"d\\u0031.1\",\"status\":\"done\",\"result\":[1]}", 500,
			RPC "\"id\":\"b1\",\"result\":{\"entries\":[{}", "]}}");
	case 2:
		return repeated(",{\"types\":[\"a\",\"b\"]}", 200,
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{"
			"\"protocol\":[1],\"handler\":\"h\",\"subscribe\":[{}",
			"]}}");
	default:
		return repeated("x", 20000, "{\"never\":\"closed", "");
	}
}

static void without_memory_parsing_fails_and_the_parser_stays_usable(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	for (int which = 0; which < 4; which++) {
		for (size_t n = 1;; n++) {
			const char *text = greedy_line(which);
			int r;

			alloc_fail_at(n);
			r = protocol_parse(parser, bytes_of(text), &line, &err);
			if (!alloc_fail_never())
				break;
			assert_int_equal(r, FAULT_MEMORY);
			assert_string_equal(err.text, "out of memory");
			read_text(hello(""));
			assert_int_equal(line.kind, LINE_HELLO);
		}
	}
}

#define HELLO_WITH                                                                                 \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"handler\":\"h\","        \
	"\"protocol\":[1"

/* Any process that can open the socket can send such a line before its hello, with millions of these elements. An
 * allocation is 16 KiB or what a list doubles to. The entries of a batch answer have a limit of their own. */
static void the_memory_of_a_line_does_not_grow_with_its_mistakes(void **state)
{
	static const struct {
		size_t most; /* allocations */
		const char *before, *element, *after;
	} lines[] = {
		{ 20, HELLO_WITH, ",1", "]}}" },
		{ 20, HELLO_WITH, ",\"1\"", "]}}" },
		{ 20, HELLO_WITH "],\"subscribe\":[1", ",1", "]}}" },
		{ 20, HELLO_WITH "],\"subscribe\":[{}", ",{\"x\":1}", "]}}" },
		{ 20, HELLO_WITH "],\"subscribe\":[{\"types\":[1", ",1", "]}]}}" },
		{ 20, HELLO_WITH "],\"subscribe\":[{\"types\":[\"a\"", ",\"a\"", "]}]}}" },
		{ 20, HELLO_WITH "]", ",\"max_in_flight\":1", "}}" },
		{ 20, HELLO_WITH "]", ",\"max_in_flight\":0.5", "}}" },
		{ 20, RPC "\"id\":\"d1.1\",\"result\":{\"status\":\"done\",\"emit\":[1", ",1",
			"]}}" },
		{ 600, RPC "\"id\":\"b1\",\"result\":{\"entries\":[{}", ",{\"status\":1}", "]}}" },
		{ 600, RPC "\"id\":\"b1\",\"result\":{\"entries\":[{}",
			",{\"code\":\"\\u0000\",\"result\":\"\\u0000\"}", "]}}" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		const char *text =
			repeated(lines[i].element, 100000, lines[i].before, lines[i].after);

		alloc_fail_at(lines[i].most);
		(void)protocol_parse(parser, bytes_of(text), &line, NULL);
		if (alloc_fail_never())
			fail_msg("%s takes too much memory", lines[i].element);
	}
}

static void without_memory_no_parser_is_created(void **state)
{
	struct protocol_parser *second = NULL;

	(void)state;
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = protocol_parser_new(&second, NULL);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
		assert_null(second);
	}
	protocol_parser_free(second);
	protocol_parser_free(NULL);
}

static uint32_t noise = 20261121;

static uint32_t next_noise(void)
{
	noise ^= noise << 13;
	noise ^= noise >> 17;
	noise ^= noise << 5;
	return noise;
}

static void any_bytes_give_a_result(void **state)
{
	unsigned char bytes[64];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t length = next_noise() % sizeof(bytes);

		for (size_t j = 0; j < length; j++)
			bytes[j] = (unsigned char)next_noise();
		read_bytes(bytes, length);
		assert_int_equal(line.kind, LINE_INVALID);
	}
}

/* Good lines with a few bytes changed, cut or doubled: they come close to every rule. */
static void nearly_valid_lines_give_a_result(void **state)
{
	static const char alphabet[] = "{}[]\",:\\u0dc1eE+-. \nntrs\x80\xff";
	char text[4096];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		const char *from = next_noise() % 2 == 0
					   ? hello(",\"subscribe\":[{\"types\":[\"a\"]}],\"batch\":"
						   "{\"max\":1}")
					   : answer("{\"entries\":[{\"id\":\"d\\ud83d\\ude00\","
						    "\"status\":\"done\","
						    "\"result\":{\"n\":[1e5,-0.1,\"\\u0000\"]},"
						    "\"delay_ms\":5}]}");
		size_t length = strlen(from);

		(void)snprintf(text, sizeof(text), "%s", from);
		for (uint32_t j = 0; j < 1 + next_noise() % 4; j++)
			text[next_noise() % length] =
				alphabet[next_noise() % (sizeof(alphabet) - 1)];
		if (next_noise() % 8 == 0)
			length = next_noise() % length;
		read_bytes(text, length);
		assert_true(utf8_is_valid(bytes_of(line.error_text)));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_short_hello_has_the_defaults),
		TEST(a_hello_with_every_member_is_read),
		TEST(null_and_unknown_members_count_as_not_given),
		TEST(an_unknown_member_of_a_subscription_that_is_null_counts_as_not_given),
		TEST(a_refused_hello_keeps_the_handler_name),
		TEST(extend_window_and_drain_are_read),
		TEST(every_broken_line_is_refused_with_its_reason),
		TEST(every_bad_parameter_of_hello_is_named),
		TEST(a_protocol_list_of_the_wrong_kind_is_named),
		TEST(another_framing_is_named_and_closes_the_connection),
		TEST(names_subscriptions_and_types_have_their_limits),
		TEST(an_id_too_long_is_not_echoed),
		TEST(nesting_is_limited),
		TEST(a_done_answer_has_its_result_unchanged),
		TEST(a_result_is_one_line),
		TEST(a_null_result_counts_as_not_given),
		TEST(each_status_is_read_with_its_members),
		TEST(a_delay_is_cut_to_a_year_and_to_whole_milliseconds),
		TEST(a_malformed_answer_is_a_retry_with_its_reason),
		TEST(the_events_of_an_answer_are_as_they_were_written),
		TEST(no_events_are_the_same_as_no_member),
		TEST(an_answer_has_at_most_a_thousand_events),
		TEST(an_error_is_a_retry_with_its_message),
		TEST(an_answer_with_any_id_keeps_the_id),
		TEST(a_batch_answer_has_a_verdict_for_each_entry_with_an_id),
		TEST(a_batch_answer_has_at_most_the_entries_of_the_largest_batch),
		TEST(a_result_that_jsonb_refuses_is_replaced_by_a_note),
		TEST(a_result_over_its_limit_is_replaced_by_a_note),
		TEST(texts_that_cannot_be_stored_are_replaced_by_a_note),
		TEST(long_texts_are_cut_at_a_character),
		TEST(an_error_text_stays_utf8_when_it_is_cut),
		TEST(replies_are_one_line_each),
		TEST(the_hello_reply_repeats_the_subscriptions),
		TEST(the_hello_reply_counts_omitted_subscriptions),
		TEST(an_error_reply_escapes_its_text),
		TEST(a_delivery_is_one_line),
		TEST(a_batch_is_one_line_with_its_entries),
		TEST(parsed_values_survive_the_line_but_not_the_next_one),
		TEST(without_memory_parsing_fails_and_the_parser_stays_usable),
		TEST(the_memory_of_a_line_does_not_grow_with_its_mistakes),
		TEST(without_memory_no_parser_is_created),
		TEST(any_bytes_give_a_result),
		TEST(nearly_valid_lines_give_a_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
