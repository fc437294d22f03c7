/* record.c: the output is always accepted by jsonb and by JSON readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/text/utf8.h"
#include "json/text.h"
#include "model/message/record.h"

#define BYTES(literal)                                                                             \
	(struct bytes)                                                                             \
	{                                                                                          \
		(literal), sizeof(literal) - 1                                                     \
	}

static void assert_encoded(const struct header *headers, size_t count, const char *expected)
{
	struct buf out = BUF_INIT;

	headers_encode(&out, headers, count);
	assert_string_equal(buf_str(&out), expected);
	buf_fini(&out);
}

static void no_headers_are_an_empty_array(void **state)
{
	(void)state;
	assert_encoded(NULL, 0, "[]");
}

static void headers_keep_their_order_and_repeated_names(void **state)
{
	const struct header headers[] = {
		{ "b", BYTES("1") },
		{ "a", BYTES("2") },
		{ "b", BYTES("") },
	};

	(void)state;
	assert_encoded(headers, 3, "[[\"b\",\"1\"],[\"a\",\"2\"],[\"b\",\"\"]]");
}

static void a_null_value_is_null(void **state)
{
	const struct header headers[] = { { "nul", { NULL, 0 } } };

	(void)state;
	assert_encoded(headers, 1, "[[\"nul\",null]]");
}

static void names_and_values_that_jsonb_cannot_store_are_base64(void **state)
{
	const struct header headers[] = {
		{ "bin", BYTES("\xff\xfe") },
		{ "zero", BYTES("a\0b") },
		{ "surrogate", BYTES("\xed\xa0\x80") },
		{ "\xff", BYTES("x") },
	};

	(void)state;
	assert_encoded(headers, 4,
		"[[\"bin\",{\"base64\":\"//4=\"}],[\"zero\",{\"base64\":\"YQBi\"}],"
		"[\"surrogate\",{\"base64\":\"7aCA\"}],[{\"base64\":\"/w==\"},\"x\"]]");
}

static void strings_escape_only_required_characters(void **state)
{
	const struct {
		struct bytes text;
		const char *expected;
	} rows[] = {
		{ BYTES(""), "\"\"" },
		{ { NULL, 0 }, "\"\"" },
		{ BYTES("plain / text"), "\"plain / text\"" },
		{ BYTES("\"\\"), "\"\\\"\\\\\"" },
		{ BYTES("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\"" },
		{ BYTES("\x01\x0b\x1f"), "\"\\u0001\\u000b\\u001f\"" },
		{ BYTES("a\0b"), "\"a\\u0000b\"" },
		{ BYTES("\x7f"), "\"\x7f\"" },
		{ BYTES("za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xf0\x9f\x90\x98"),
			"\"za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xf0\x9f\x90\x98\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT;

		json_add_string(&out, rows[i].text);
		assert_string_equal(buf_str(&out), rows[i].expected);
		buf_fini(&out);
	}
}

static void base64_agrees_with_the_vectors_of_rfc_4648(void **state)
{
	const char *const rows[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xfb\xff\xbf", "+/+/" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT;

		base64_add(&out, bytes_of(rows[i][0]));
		assert_string_equal(buf_str(&out), rows[i][1]);
		buf_fini(&out);
	}
}

static void a_text_that_was_cut_is_repaired(void **state)
{
	static const struct {
		const char *cut;
		const char *repaired;
	} cases[] = {
		{ "", "" },
		{ "abc", "abc" },
		{ "\303\244\303\244", "\303\244\303\244" },
		{ "a\303", "a" },
		{ "a\342\202", "a" },
		{ "a\360\237\230", "a" },
		{ "a\303 b", "a? b" },
		{ "\244b", "?b" },
		{ "a\300", "a?" },
		{ "a\355\240\200", "a???" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "%s", cases[i].cut);
		utf8_repair(text);
		assert_string_equal(text, cases[i].repaired);
	}
}

static void utf8_is_checked_as_in_rfc_3629(void **state)
{
	const struct {
		struct bytes text;
		bool valid;
	} rows[] = {
		{ { NULL, 0 }, true },
		{ BYTES(""), true },
		{ BYTES("a\0b"), true },
		{ BYTES("0123456789abcdef"), true },
		{ BYTES("01234567\x80"), false },
		{ BYTES("\xc2\x80\xdf\xbf"), true },
		{ BYTES("\xc1\xbf"), false }, /* overlong */
		{ BYTES("\xe0\xa0\x80"), true },
		{ BYTES("\xe0\x9f\xbf"), false }, /* overlong */
		{ BYTES("\xed\x9f\xbf"), true },
		{ BYTES("\xed\xa0\x80"), false }, /* surrogate */
		{ BYTES("\xee\x80\x80\xef\xbf\xbf"), true },
		{ BYTES("\xf0\x90\x80\x80"), true },
		{ BYTES("\xf0\x8f\xbf\xbf"), false }, /* overlong */
		{ BYTES("\xf4\x8f\xbf\xbf"), true },
		{ BYTES("\xf4\x90\x80\x80"), false }, /* above U+10FFFF */
		{ BYTES("\xf5\x80\x80\x80"), false },
		{ BYTES("\xff"), false },
		{ BYTES("\x80"), false },
		{ BYTES("\xc3"), false }, /* cut off */
		{ BYTES("\xe2\x82"), false },
		{ BYTES("\xf0\x9f\x90"), false },
		{ BYTES("\xe2\x82z"), false },
		{ BYTES("\xf0\x9f\x90z"), false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (utf8_is_valid(rows[i].text) != rows[i].valid)
			fail_msg("row %zu has a wrong result", i);
	}
}

static void an_invalid_byte_is_found_at_every_position(void **state)
{
	char text[40];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++) {
		memset(text, 'a', sizeof(text));
		assert_true(utf8_is_valid((struct bytes){ text, sizeof(text) }));
		text[i] = (char)0xe2;
		assert_false(utf8_is_valid((struct bytes){ text, sizeof(text) }));
	}
}

static void an_unprintable_character_is_found_at_every_position(void **state)
{
	static const char others[] = { 0x1f, '\n', '\v', 0x7f, (char)0x80, (char)0xff };
	char text[40];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++) {
		for (size_t other = 0; other < sizeof(others); other++) {
			memset(text, other % 2 == 0 ? ' ' : '~', sizeof(text));
			assert_true(ascii_is_printable((struct bytes){ text, sizeof(text) }));
			text[i] = others[other];
			assert_false(ascii_is_printable((struct bytes){ text, sizeof(text) }));
		}
	}
	assert_true(ascii_is_printable(BYTES_LITERAL("")));
	assert_false(ascii_is_printable((struct bytes){ NULL, 0 }));
}

static void out_of_memory_leaves_a_broken_buffer(void **state)
{
	const struct header headers[] = { { "bin", BYTES("\xff") }, { "name", BYTES("value") } };
	size_t n = 1;

	(void)state;
	for (;; n++) {
		struct buf out = BUF_INIT;
		bool ok;

		alloc_fail_at(n);
		headers_encode(&out, headers, 2);
		ok = buf_ok(&out);
		buf_fini(&out);
		if (!alloc_fail_never()) {
			assert_true(ok);
			break;
		}
		assert_false(ok);
	}
	assert_true(n > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_headers_are_an_empty_array),
		cmocka_unit_test(headers_keep_their_order_and_repeated_names),
		cmocka_unit_test(a_null_value_is_null),
		cmocka_unit_test(names_and_values_that_jsonb_cannot_store_are_base64),
		cmocka_unit_test(strings_escape_only_required_characters),
		cmocka_unit_test(base64_agrees_with_the_vectors_of_rfc_4648),
		cmocka_unit_test(a_text_that_was_cut_is_repaired),
		cmocka_unit_test(utf8_is_checked_as_in_rfc_3629),
		cmocka_unit_test(an_invalid_byte_is_found_at_every_position),
		cmocka_unit_test(an_unprintable_character_is_found_at_every_position),
		cmocka_unit_test(out_of_memory_leaves_a_broken_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
