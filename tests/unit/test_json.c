/* json/stream.c, json/text.c, json/pointer.c, json/table.c: strict reading, exact slices, bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "json/members.h"
#include "json/pointer.h"
#include "json/stream.h"
#include "json/table.h"
#include "json/text.h"

#define BYTES(literal)                                                                             \
	(struct bytes)                                                                             \
	{                                                                                          \
		(literal), sizeof(literal) - 1                                                     \
	}

static int set_up(void **state)
{
	struct json_stream *stream = NULL;
	int r = json_stream_new(&stream, NULL);

	*state = stream;
	return r;
}

static int tear_down(void **state)
{
	json_stream_free(*state);
	return 0;
}

/* One letter and depth a token, and the slice: "{0 ..." is what the tests compare. */
static bool write_down(void *arg, const struct json_token *token)
{
	static const char letters[] = "{}[]ksnb0";
	struct buf *out = arg;

	buf_addf(out, "%c%d:%.*s ", letters[token->kind], token->depth, (int)token->raw.length,
		(const char *)token->raw.data);
	return true;
}

static void assert_tokens(struct json_stream *stream, struct bytes text, const char *expected)
{
	struct buf out = BUF_INIT;

	assert_int_equal(json_stream_read(stream, text, write_down, &out, NULL), 0);
	assert_string_equal(buf_str(&out), expected);
	buf_fini(&out);
}

static void tokens_are_slices_of_the_text(void **state)
{
	assert_tokens(*state,
		BYTES(" { \"a\\n\" : [ 1.50 , -2E+9,true ,\nfalse, null,\"x\\\"\" ] } "),
		"{0:{ k1:\"a\\n\" [1:[ n2:1.50 n2:-2E+9 b2:true b2:false 02:null s2:\"x\\\"\" "
		"]1:] }0:} ");
	assert_tokens(*state, BYTES("{\"\":{\"b\":{}},\"c\":[[],{}]}"),
		"{0:{ k1:\"\" {1:{ k2:\"b\" {2:{ }2:} }1:} k1:\"c\" [1:[ [2:[ ]2:] {2:{ }2:} ]1:] "
		"}0:} ");
}

static void a_number_at_the_end_of_the_text_is_complete(void **state)
{
	assert_tokens(*state, BYTES("12345678901234567890"), "n0:12345678901234567890 ");
	assert_tokens(*state, BYTES(" -0.10"), "n0:-0.10 ");
	assert_tokens(*state, BYTES("\"\""), "s0:\"\" ");
	assert_tokens(*state, BYTES("true"), "b0:true ");
}

static void only_one_strict_json_value_is_json(void **state)
{
	const struct {
		struct bytes text;
		int result;
	} rows[] = {
		{ BYTES("{}"), 0 },
		{ BYTES(" \t\r\n[] \t\r\n"), 0 },
		{ BYTES("\"\\ud83d\\ude00\""), 0 },
		{ BYTES("\"\\ud800\""), 0 }, /* the grammar allows it; json_text_of() does not */
		{ { NULL, 0 }, JSON_BROKEN },
		{ BYTES(""), JSON_BROKEN },
		{ BYTES("  "), JSON_BROKEN },
		{ BYTES("{} {}"), JSON_BROKEN },
		{ BYTES("1 2"), JSON_BROKEN },
		{ BYTES("{}x"), JSON_BROKEN },
		{ BYTES("{}\""), JSON_BROKEN },
		{ BYTES("1 \"a\\"), JSON_BROKEN },
		{ BYTES("[]tru"), JSON_BROKEN },
		{ BYTES("\"a\"-"), JSON_BROKEN },
		{ BYTES("{\"a\":1"), JSON_BROKEN },
		{ BYTES("\"abc"), JSON_BROKEN },
		{ BYTES("tru"), JSON_BROKEN },
		{ BYTES("nul"), JSON_BROKEN },
		{ BYTES("-"), JSON_BROKEN },
		{ BYTES("01"), JSON_BROKEN },
		{ BYTES("1."), JSON_BROKEN },
		{ BYTES("+1"), JSON_BROKEN },
		{ BYTES("NaN"), JSON_BROKEN },
		{ BYTES("[1,]"), JSON_BROKEN },
		{ BYTES("{\"a\":1,}"), JSON_BROKEN },
		{ BYTES("{a:1}"), JSON_BROKEN },
		{ BYTES("{'a':1}"), JSON_BROKEN },
		{ BYTES("[1]/* c */"), JSON_BROKEN },
		{ BYTES("// c\n[1]"), JSON_BROKEN },
		{ BYTES("\xef\xbb\xbf{}"), JSON_BROKEN },
		{ BYTES("[1,\v2]"), JSON_BROKEN },
		{ BYTES("[1,\f2]"), JSON_BROKEN },
		{ BYTES("\"\t\""), JSON_BROKEN },
		{ BYTES("\"a\nb\""), JSON_BROKEN },
		{ BYTES("{}\0"), JSON_BROKEN },
		{ BYTES("\"\0\""), JSON_BROKEN },
		{ BYTES("\"\\x\""), JSON_BROKEN },
		{ BYTES("\"\\u12g4\""), JSON_BROKEN },
		{ BYTES("\"\xff\""), JSON_BROKEN },
		{ BYTES("\"\xed\xa0\x80\""), JSON_BROKEN },
		{ BYTES("\"\xc0\x80\""), JSON_BROKEN },
		{ BYTES("\"\xf4\x90\x80\x80\""), JSON_BROKEN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf seen = BUF_INIT;
		int validated = json_stream_read(*state, rows[i].text, NULL, NULL, NULL);
		int visited = json_stream_read(*state, rows[i].text, write_down, &seen, NULL);

		buf_fini(&seen);
		if (validated != rows[i].result || visited != rows[i].result)
			fail_msg("row %zu: %d, %d", i, validated, visited);
	}
}

static void depth_is_limited(void **state)
{
	char text[2 * JSON_MAX_DEPTH + 2];
	struct bytes deepest = { text + 1, (size_t)2 * JSON_MAX_DEPTH };
	struct bytes too_deep = { text, sizeof(text) };

	memset(text, '[', JSON_MAX_DEPTH + 1);
	memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
	assert_int_equal(json_stream_read(*state, deepest, NULL, NULL, NULL), 0);
	assert_int_equal(json_stream_read(*state, too_deep, NULL, NULL, NULL), JSON_BROKEN);
}

static bool stop(void *arg, const struct json_token *token)
{
	(void)arg;
	return token->kind != JSON_STRING;
}

static void a_visitor_can_stop(void **state)
{
	assert_int_equal(
		json_stream_read(*state, BYTES("[1,\"x\",oops"), stop, NULL, NULL), JSON_STOPPED);
	assert_int_equal(json_stream_read(*state, BYTES("[1,oops"), stop, NULL, NULL), JSON_BROKEN);
}

static bool count(void *arg, const struct json_token *token)
{
	(void)token;
	(*(size_t *)arg)++;
	return true;
}

/* Around the sizes where yajl's buffers double; whole, and cut off so that the lexer keeps it. */
static void yajl_never_asks_for_more_than_was_reserved(void **state)
{
	static const char begin[] = { '[', '"', '\\', 'n' };
	static const char middle[] = { '"', ',', '"', '\\', 't' };
	static const char end[] = { '"', ']' };
	const size_t sizes[] = { 2040, 4090, 8190, 65530, 1048570 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t length = sizes[i]; length < sizes[i] + 12; length++) {
			char *text = malloc(length);
			size_t tokens = 0;

			assert_non_null(text);
			memset(text, 'x', length);
			memcpy(text, begin, sizeof(begin));
			memcpy(text + length - 2, end, sizeof(end));
			assert_int_equal(json_stream_read(*state, (struct bytes){ text, length },
						 count, &tokens, NULL),
				0);
			assert_int_equal(tokens, 3);
			memcpy(text + length / 2, middle, sizeof(middle));
			assert_int_equal(
				json_stream_read(*state, (struct bytes){ text, length - 2 }, count,
					&tokens, NULL),
				JSON_BROKEN);
			free(text);
		}
	}
}

/* Escapes all along make the decoded string grow step by step: the dearest way there is. */
static void a_string_that_grows_by_steps_stays_within_the_reserve(void **state)
{
	static const char escape[] = { '\\', 'n' };
	const size_t size = 65536;

	for (size_t length = size; length < size + size / 16; length += 97) {
		char *text = malloc(length);

		assert_non_null(text);
		memset(text, 'x', length);
		for (size_t i = 1; i + 64 < length; i += 64)
			memcpy(text + i, escape, sizeof(escape));
		text[0] = '"';
		text[length - 1] = '"';
		assert_int_equal(
			json_stream_read(*state, (struct bytes){ text, length }, stop, NULL, NULL),
			JSON_STOPPED);
		free(text);
	}
}

static bool write_member(void *arg, const struct json_member *member)
{
	buf_addf(arg, "%.*s=%.*s;", (int)member->name.length, (const char *)member->name.data,
		(int)member->raw.length, (const char *)member->raw.data);
	return true;
}

static void members_have_their_complete_values(void **state)
{
	struct buf out = BUF_INIT;

	assert_int_equal(json_read_members(*state,
				 BYTES("{\"a\": {\"b\":[1, 2]} ,\"c\":1.0,\"d\":[ ],\"e\":\"\"}"),
				 write_member, &out, NULL),
		0);
	assert_string_equal(buf_str(&out), "a={\"b\":[1, 2]};c=1.0;d=[ ];e=\"\";");
	buf_fini(&out);
}

static void only_an_object_has_members(void **state)
{
	struct buf out = BUF_INIT;

	assert_int_equal(
		json_read_members(*state, BYTES("[{}]"), write_member, &out, NULL), JSON_BROKEN);
	assert_int_equal(
		json_read_members(*state, BYTES("7"), write_member, &out, NULL), JSON_BROKEN);
	assert_int_equal(json_read_members(*state, BYTES("{\"a\":1"), write_member, &out, NULL),
		JSON_BROKEN);
	buf_fini(&out);
}

static void strings_are_decoded(void **state)
{
	const struct {
		struct bytes raw;
		struct bytes text;
	} rows[] = {
		{ BYTES("\"\""), BYTES("") },
		{ BYTES("\"plain\""), BYTES("plain") },
		{ BYTES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), BYTES("\"\\/\b\f\n\r\t") },
		{ BYTES("\"a\\u0000b\""), BYTES("a\0b") },
		{ BYTES("\"\\u0041\\u00e9\\u20AC\""), BYTES("A\xc3\xa9\xe2\x82\xac") },
		{ BYTES("\"\\ud83d\\udc18!\""), BYTES("\xf0\x9f\x90\x98!") },
		{ BYTES("\"\\udbff\\udfff\""), BYTES("\xf4\x8f\xbf\xbf") },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf scratch = BUF_INIT;
		struct bytes text;

		assert_int_equal(json_text_of(rows[i].raw, &scratch, &text, NULL), 0);
		assert_true(bytes_equal(text, rows[i].text));
		buf_fini(&scratch);
	}
}

static void half_a_surrogate_pair_is_invalid(void **state)
{
	const struct bytes rows[] = {
		BYTES("\"\\ud800\""),
		BYTES("\"\\ud800x\""),
		BYTES("\"\\ud800\\n\""),
		BYTES("\"\\ud800\\u0041\""),
		BYTES("\"\\udc00\""),
		BYTES("\"\\ud800\\ud800\""),
		BYTES("\"\\udc00\\udc00\""),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf scratch = BUF_INIT;
		struct bytes text;

		assert_int_equal(json_text_of(rows[i], &scratch, &text, NULL), JSON_BROKEN);
		buf_fini(&scratch);
	}
}

/* The value at `pointer` as written; "-" when there is none. */
static void assert_points_at(
	struct json_stream *stream, const char *text, const char *pointer, const char *expected)
{
	struct json_pointer compiled;
	struct json_value value;
	struct buf scratch = BUF_INIT;
	const struct json_search search = { &compiled, 1, &value, &scratch };
	struct bytes found;

	assert_int_equal(json_pointer_init(&compiled, pointer, NULL), 0);
	assert_int_equal(json_find(stream, bytes_of(text), &search, NULL), 0);
	found = value.raw.data == NULL ? bytes_of("-") : value.raw;
	if (!bytes_equal(found, bytes_of(expected)))
		fail_msg("%s in %s is %.*s", pointer, text, (int)found.length,
			(const char *)found.data);
	json_pointer_fini(&compiled);
	buf_fini(&scratch);
}

static void a_pointer_finds_its_value(void **state)
{
	const char *const rows[][3] = {
		{ "{\"a\":1}", "/a", "1" },
		{ "{\"a\":{\"b\":\"x\"}}", "/a/b", "\"x\"" },
		{ "{\"b\":9,\"a\":{\"c\":8,\"b\":\"x\"}}", "/a/b", "\"x\"" },
		{ "{\"x\":{\"a\":{\"b\":1}},\"a\":{\"b\":2}}", "/a/b", "2" },
		{ "{\"a\":{\"a\":{\"b\":1},\"b\":2}}", "/a/b", "2" },
		{ "{\"a\":[{\"id\":1},{\"id\":2}]}", "/a/1/id", "2" },
		{ "[10,[20,30],40]", "/1/1", "30" },
		{ "[10,[20,30],40]", "/2", "40" },
		{ "[10]", "/00", "-" },
		{ "[10]", "/-", "-" },
		{ "[10]", "/1", "-" },
		{ "{\"0\":\"name\"}", "/0", "\"name\"" },
		{ "{\"\":7}", "/", "7" },
		{ "{\"a/b\":1,\"m~n\":2}", "/a~1b", "1" },
		{ "{\"a/b\":1,\"m~n\":2}", "/m~0n", "2" },
		{ "{\"~1\":3}", "/~01", "3" },
		{ "{\"\\u0061\":true}", "/a", "true" },
		{ "{\"\\ud800\":1,\"a\":2}", "/a", "2" },
		{ "\"root\"", "", "\"root\"" },
		{ "{\"a\":0.10}", "/a", "0.10" },
		{ "{\"a\":12345678901234567890123}", "/a", "12345678901234567890123" },
		{ "{\"a\":null}", "/a", "-" },
		{ "{\"a\":{}}", "/a", "-" },
		{ "{\"a\":[]}", "/a", "-" },
		{ "{\"a\":1}", "/b", "-" },
		{ "{\"a\":1}", "/a/b", "-" },
		{ "{\"a\":1,\"a\":2}", "/a", "1" },
		{ "{\"a\":{},\"a\":2}", "/a", "-" },
		{ "{\"a\":{},\"x\":{\"b\":1}}", "/a/b", "-" },
		{ "{\"a\":{},\"a\":{\"b\":2}}", "/a/b", "2" },
		{ "{\"b\":1", "/a", "-" },
		/* The mistake is behind the value. */
		{ "{\"a\":1,", "/a", "-" },
		{ "{\"a\":1} {\"a\":2}", "/a", "-" },
		{ "{\"a\":1}]", "/a", "-" },
		{ "oops", "/a", "-" },
		{ "", "/a", "-" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_points_at(*state, rows[i][0], rows[i][1], rows[i][2]);
}

static void several_pointers_are_found_in_one_pass(void **state)
{
	struct json_pointer pointers[3];
	struct json_value values[3];
	struct buf scratch = BUF_INIT;
	const struct json_search search = { pointers, 3, values, &scratch };

	assert_int_equal(json_pointer_init(&pointers[0], "/b", NULL), 0);
	assert_int_equal(json_pointer_init(&pointers[1], "/a/1", NULL), 0);
	assert_int_equal(json_pointer_init(&pointers[2], "/c", NULL), 0);
	assert_int_equal(json_find(*state, BYTES("{\"a\":[0,1],\"b\":\"x\"}"), &search, NULL), 0);
	assert_true(bytes_equal(values[0].raw, BYTES("\"x\"")));
	assert_true(bytes_equal(values[1].raw, BYTES("1")));
	assert_null(values[2].raw.data);
	assert_int_equal(json_find(*state, BYTES("{\"a\":[0,1],\"b\":\"x\""), &search, NULL), 0);
	assert_null(values[0].raw.data);
	for (size_t i = 0; i < 3; i++)
		json_pointer_fini(&pointers[i]);
	buf_fini(&scratch);
}

static void a_malformed_pointer_is_refused(void **state)
{
	const char *const rows[] = { "a", "a/b", "/a~", "/a~2", "/~/b" };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct json_pointer pointer;

		assert_int_equal(
			json_pointer_init(&pointer, rows[i], NULL), JSON_POINTER_MALFORMED);
		json_pointer_fini(&pointer);
	}
}

enum { TOP = 1, LIST };

static void note_value(void *out, const struct json_rule *rule, const struct json_token *value)
{
	buf_addf(out, "%s=%.*s ", rule->name == NULL ? "item" : rule->name, (int)value->raw.length,
		(const char *)value->raw.data);
}

static void note_repeated(void *out, const struct json_rule *rule)
{
	buf_addf(out, "%s-twice ", rule->name);
}

static void note_mistyped(void *out, const struct json_rule *rule, enum json_kind kind)
{
	buf_addf(out, "%s-kind-%d ", rule->name == NULL ? "item" : rule->name, (int)kind);
}

static void note_unknown(void *out, int place, struct bytes name)
{
	buf_addf(out, "%d.%.*s-unknown ", place, (int)name.length, (const char *)name.data);
}

static void note_end(void *out, int place, struct bytes raw)
{
	buf_addf(out, "end-%d:%.*s ", place, (int)raw.length, (const char *)raw.data);
}

static bool note_is_long(const void *out)
{
	return ((const struct buf *)out)->length > 1000;
}

static const struct json_rule rules[] = {
	{ TOP, "n", 0, JSON_IS(JSON_NUMBER), 0, note_value },
	{ TOP, "whole", 0, JSON_IS(JSON_OBJECT) | JSON_IS(JSON_NULL), 0, note_value },
	{ TOP, "list", 0, JSON_IS(JSON_ARRAY), LIST },
	{ LIST, NULL, 0, JSON_IS(JSON_STRING), 0, note_value },
};

static const struct json_table table = {
	.rules = rules,
	.count = sizeof(rules) / sizeof(rules[0]),
	.root = TOP,
	.repeated = note_repeated,
	.mistyped = note_mistyped,
	.unknown_name = note_unknown,
	.ended = note_end,
	.stopped = note_is_long,
};

static void a_table_says_what_is_stored(void **state)
{
	const struct {
		struct bytes text;
		int result;
		const char *stored;
	} rows[] = {
		{ BYTES("{}"), 0, "end-1:{} " },
		{ BYTES("{\"n\":1.50,\"n\":2}"), 0, "n=1.50 n-twice end-1:{\"n\":1.50,\"n\":2} " },
		{ BYTES("{ \"\\u006e\" : [[1]] }"), 0, "n-kind-2 end-1:{ \"\\u006e\" : [[1]] } " },
		{ BYTES("{\"whole\" : {\"n\":[1,{}]} }"), 0,
			"whole={\"n\":[1,{}]} end-1:{\"whole\" : {\"n\":[1,{}]} } " },
		{ BYTES("{\"whole\":null}"), 0, "whole=null end-1:{\"whole\":null} " },
		{ BYTES("{\"list\":[\"a\",1,[\"b\"]]}"), 0,
			"item=\"a\" item-kind-6 item-kind-2 end-2:[\"a\",1,[\"b\"]] "
			"end-1:{\"list\":[\"a\",1,[\"b\"]]} " },
		{ BYTES("{\"x\":{\"n\":1}}"), 0, "1.x-unknown end-1:{\"x\":{\"n\":1}} " },
		{ BYTES("[{\"n\":1}]"), JSON_ARRAY_TEXT, "" },
		{ BYTES("7"), JSON_SCALAR_TEXT, "" },
		{ BYTES("{\"n\":1"), JSON_BROKEN, "n=1 " },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf stored = BUF_INIT;

		assert_int_equal(json_table_read(*state, rows[i].text, &table, &stored, NULL),
			rows[i].result);
		assert_string_equal(buf_str(&stored), rows[i].stored);
		buf_fini(&stored);
	}
}

static void a_table_can_stop_the_reading(void **state)
{
	struct buf stored = BUF_INIT;

	while (stored.length < 1000)
		buf_add_char(&stored, '.');
	assert_int_equal(
		json_table_read(*state, BYTES("{\"n\":1,\"n\":2}x"), &table, &stored, NULL),
		JSON_STOPPED);
	buf_fini(&stored);
}

static void a_mistake_is_described(void **state)
{
	const struct {
		struct bytes text;
		enum json_problem problem;
		const char *words;
		size_t at;
	} rows[] = {
		{ BYTES("[\"\xed\xa0\x80\"]"), JSON_NOT_UTF8, NULL, 0 },
		{ BYTES("[1,\v2]"), JSON_BAD_SPACE, NULL, 0 },
		{ BYTES("{} {}"), JSON_SYNTAX, "trailing garbage", 2 },
		{ BYTES("[1 2]"), JSON_SYNTAX,
			"parse error: after array element, I expect ',' or ']'", 4 },
	};
	const struct json_mistake *mistake = json_stream_mistake(*state);
	struct buf tokens = BUF_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(json_stream_read(*state, rows[i].text, write_down, &tokens, NULL),
			JSON_BROKEN);
		assert_int_equal(mistake->problem, rows[i].problem);
		if (rows[i].words == NULL)
			continue;
		assert_string_equal(mistake->words, rows[i].words);
		assert_int_equal(mistake->at, rows[i].at);
	}
	buf_fini(&tokens);
}

static void a_stream_has_its_own_limits(void **state)
{
	const struct json_limits limits = { .max_depth = 2, .any_space = true };
	struct json_stream *stream = NULL;

	(void)state;
	assert_int_equal(json_stream_new_with(&stream, &limits, NULL), 0);
	assert_int_equal(json_stream_read(stream, BYTES("[\f[\v1]]"), NULL, NULL, NULL), 0);
	assert_int_equal(
		json_stream_read(stream, BYTES("[\"\v\"]"), NULL, NULL, NULL), JSON_BROKEN);
	assert_int_equal(json_stream_read(stream, BYTES("[[[1]]]"), NULL, NULL, NULL), JSON_BROKEN);
	assert_int_equal(json_stream_mistake(stream)->problem, JSON_TOO_DEEP);
	json_stream_free(stream);
}

static void the_deepest_text_stays_within_the_reserve(void **state)
{
	const struct json_limits limits = { .max_depth = JSON_DEEPEST };
	struct json_stream *stream = NULL;
	char text[2 * JSON_DEEPEST + 2];
	size_t tokens = 0;

	(void)state;
	memset(text, '[', JSON_DEEPEST + 1);
	memset(text + JSON_DEEPEST, ']', JSON_DEEPEST);
	assert_int_equal(json_stream_new_with(&stream, &limits, NULL), 0);
	assert_int_equal(json_stream_read(stream, (struct bytes){ text, 2 * (size_t)JSON_DEEPEST },
				 count, &tokens, NULL),
		0);
	assert_int_equal(tokens, 2 * JSON_DEEPEST);
	memset(text, '[', sizeof(text));
	assert_int_equal(json_stream_read(stream, (struct bytes){ text, sizeof(text) }, count,
				 &tokens, NULL),
		JSON_BROKEN);
	json_stream_free(stream);
}

static void a_string_of_any_bytes_is_written(void **state)
{
	const struct {
		const char *text;
		size_t max;
		const char *written;
	} rows[] = {
		{ "", 9, "\"\"" },
		{ "a\"b\\c", 9, "\"a\\\"b\\\\c\"" },
		{ "a\n\x1f\x7f", 9, "\"a\\u000a\\u001f\x7f\"" },
		{ "\xc3\xa9\xff\xc3", 9, "\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "x\xe2\x82\xac", 3, "\"x\"" },
		{ "xyz", 2, "\"xy\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT;

		json_add_any_string(&out, rows[i].text, rows[i].max);
		assert_string_equal(buf_str(&out), rows[i].written);
		buf_fini(&out);
	}
}

/* RFC 4648 section 10, and the two digits that differ from base64. */
static void base64url_has_no_padding_and_digits_for_urls(void **state)
{
	static const char *const rows[][2] = { { "", "" }, { "f", "Zg" }, { "fo", "Zm8" },
		{ "foo", "Zm9v" }, { "foob", "Zm9vYg" }, { "\xfb\xef\xbe\xff", "----_w" },
		{ "\xff\xff\xfe\xff\xff", "___-__8" } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[16] = "";

		*base64url_put(out, bytes_of(rows[i][0])) = '\0';
		assert_string_equal(out, rows[i][1]);
	}
}

static void base64_is_decoded_strictly(void **state)
{
	const struct {
		const char *text;
		const char *bytes; /* NULL = refused */
	} rows[] = {
		{ "", "" },
		{ "YQ==", "a" },
		{ "YWI=", "ab" },
		{ "YWJj", "abc" },
		{ "+/+/", "\xfb\xff\xbf" },
		{ "YQ=", NULL },
		{ "YQ", NULL },
		{ "YQ==YQ==", NULL },
		{ "Y===", NULL },
		{ "YWJ\n", NULL },
		{ "====", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT;

		buf_add_char(&out, '.');
		assert_int_equal(
			base64_decode(&out, bytes_of(rows[i].text)), rows[i].bytes != NULL);
		assert_int_equal(base64_is_valid(bytes_of(rows[i].text)), rows[i].bytes != NULL);
		assert_string_equal(buf_str(&out) + 1, rows[i].bytes == NULL ? "" : rows[i].bytes);
		buf_fini(&out);
	}
}

static int find_escaped_name(void)
{
	struct json_stream *stream = NULL;
	struct json_pointer pointer = { NULL, 0 };
	struct json_value value;
	struct buf scratch = BUF_INIT;
	const struct json_search search = { &pointer, 1, &value, &scratch };
	int r = json_stream_new(&stream, NULL);

	if (r == 0)
		r = json_pointer_init(&pointer, "/a/b", NULL);
	if (r == 0)
		r = json_find(stream, BYTES("{\"\\u0061\":{\"b\":1}}"), &search, NULL);
	json_pointer_fini(&pointer);
	json_stream_free(stream);
	buf_fini(&scratch);
	return r;
}

static void every_failed_allocation_is_a_fault(void **state)
{
	size_t n = 1;

	(void)state;
	for (;; n++) {
		int r;

		alloc_fail_at(n);
		r = find_escaped_name();
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
	}
	assert_int_equal(n, 7); /* stream, steps, two names, arena, scratch; then it works */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tokens_are_slices_of_the_text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_number_at_the_end_of_the_text_is_complete, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			only_one_strict_json_value_is_json, set_up, tear_down),
		cmocka_unit_test_setup_teardown(depth_is_limited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_visitor_can_stop, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			yajl_never_asks_for_more_than_was_reserved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_string_that_grows_by_steps_stays_within_the_reserve, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			members_have_their_complete_values, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_an_object_has_members, set_up, tear_down),
		cmocka_unit_test(strings_are_decoded),
		cmocka_unit_test(half_a_surrogate_pair_is_invalid),
		cmocka_unit_test_setup_teardown(a_pointer_finds_its_value, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			several_pointers_are_found_in_one_pass, set_up, tear_down),
		cmocka_unit_test(a_malformed_pointer_is_refused),
		cmocka_unit_test_setup_teardown(a_table_says_what_is_stored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_table_can_stop_the_reading, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_mistake_is_described, set_up, tear_down),
		cmocka_unit_test(a_stream_has_its_own_limits),
		cmocka_unit_test(the_deepest_text_stays_within_the_reserve),
		cmocka_unit_test(a_string_of_any_bytes_is_written),
		cmocka_unit_test(base64url_has_no_padding_and_digits_for_urls),
		cmocka_unit_test(base64_is_decoded_strictly),
		cmocka_unit_test(every_failed_allocation_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
