/* What counts as a token for the brokers, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "ingest/kafka/token.h"
#include "json/text.h"

#define NOW        1700000000000LL
#define SOON       "1700000030000" /* the earliest end that is accepted */
#define SECRET     "c2VjcmV0"
#define WITH(more) "{\"token\": \"" SECRET "\", \"expires_at_ms\": " SOON more "}"

static int read_text(struct token *token, const char *text, struct err *err)
{
	return token_read(token, bytes_of(text), NOW, err);
}

static void the_members_of_an_object_are_read(void **state)
{
	struct token token;

	(void)state;
	assert_int_equal(read_text(&token,
				 "\n " WITH(", \"principal\": \"billing\", \"more\": [{}], "
					    "\"extensions\": {\"logicalCluster\": \"lkc-1\", "
					    "\"identityPoolId\": \"pool \\u0041\"}") "\n",
				 NULL),
		0);
	assert_string_equal(token.value, SECRET);
	assert_string_equal(token.principal, "billing");
	assert_int_equal(token.expires_at_ms, NOW + 30000);
	assert_int_equal(token.extension_texts, 4);
	assert_string_equal(token.extensions[0], "logicalCluster");
	assert_string_equal(token.extensions[1], "lkc-1");
	assert_string_equal(token.extensions[2], "identityPoolId");
	assert_string_equal(token.extensions[3], "pool A");
	token_fini(&token);
}

static void a_null_is_as_if_it_were_not_there(void **state)
{
	struct token token;

	(void)state;
	assert_int_equal(
		read_text(&token, WITH(", \"principal\": null, \"extensions\": null"), NULL), 0);
	assert_string_equal(token.principal, "inboxd");
	assert_int_equal(token.extension_texts, 0);
	token_fini(&token);
}

/* header.payload.signature, base64url without padding */
static void add_web_token(struct buf *out, const char *claims)
{
	char text[512];

	buf_add_str(out, "eyJhbGciOiJub25lIn0.");
	buf_add(out, text, (size_t)(base64url_put(text, bytes_of(claims)) - text));
	buf_add_str(out, ".c2ln");
}

static void a_web_token_says_itself_when_it_ends_and_whose_it_is(void **state)
{
	static const char *const claims[] = {
		"{\"sub\":\"billing\",\"exp\":1700000100}",
		"{\"sub\":\"billing\",\"exp\":1700000100.9}",
		"{\"a\":\">>?>~~\",\"sub\":\"billing\",\"exp\":1700000100}",
	};
	struct token token;

	(void)state;
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT;

		add_web_token(&text, claims[i]);
		assert_int_equal(read_text(&token, buf_str(&text), NULL), 0);
		assert_string_equal(token.value, buf_str(&text));
		assert_string_equal(token.principal, "billing");
		assert_int_equal(token.expires_at_ms / 1000, 1700000100);
		token_fini(&token);
	}
}

static void what_is_beside_a_web_token_counts_more(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct token token;

	(void)state;
	buf_add_str(
		&text, "{\"principal\":\"shipping\",\"expires_at_ms\":1700000050000,\"token\":\"");
	add_web_token(&text, "{\"sub\":\"billing\",\"exp\":1700000100}");
	buf_add_str(&text, "\"}");
	assert_int_equal(read_text(&token, buf_str(&text), NULL), 0);
	assert_string_equal(token.principal, "shipping");
	assert_int_equal(token.expires_at_ms, NOW + 50000);
	token_fini(&token);
}

static void garbage_is_refused_and_not_repeated(void **state)
{
	static const struct {
		const char *text;
		const char *why;
	} cases[] = {
		{ "", "there is none" },
		{ " \n", "there is none" },
		{ "{}", "has no member \"token\"" },
		{ "{\"access_token\": \"" SECRET "\"}", "has no member \"token\"" },
		{ "{\"token\": \"\"}", "there is none" },
		{ "{", "no valid JSON object" },
		{ WITH("") "{", "no valid JSON object" },
		{ WITH(", \"principal\": \"\\ud800\""),
			"principal has a character that is not allowed" },
		{ WITH(", \"principal\": \"a\\u0000b\""), "not allowed" },
		{ WITH(", \"principal\": 1"), "principal must be a text" },
		{ WITH(", \"extensions\": []"), "extensions must be an object" },
		{ WITH(", \"extensions\": {\"a\": 1}"), "at most 32 texts" },
		{ WITH(", \"extensions\": {\"auth\": \"x\"}"), "must not be" },
		{ WITH(", \"extensions\": {\"a1\": \"" SECRET "\"}"), "consist of letters" },
		{ WITH(", \"extensions\": {\"\": \"x\"}"), "consist of letters" },
		{ WITH(", \"extensions\": {\"a\": \"" SECRET "\\u0001\"}"),
			"value of an extension" },
		{ "{\"token\": \"" SECRET "\"}", "nothing says when it ends" },
		{ SECRET, "nothing says when it ends" },
		{ SECRET "\x01", "not allowed" },
		{ SECRET "\xc3\xa4", "not allowed" },
		{ SECRET " " SECRET, "not allowed" },
		{ "warning\n" SECRET, "nothing else may be beside the token" },
		{ "{\"token\": \"a b " SECRET "\", \"expires_at_ms\": " SOON "}", "not allowed" },
		{ "e30." SECRET ".x", "nothing says when it ends" },
		{ "e30.!!!!.x", "nothing says when it ends" },
		{ "..", "nothing says when it ends" },
		{ "{\"token\": \"" SECRET "\", \"expires_at_ms\": \"" SOON "\"}",
			"expires_at_ms must be a number" },
		{ "{\"token\": \"" SECRET "\", \"expires_at_ms\": -1}",
			"expires_at_ms is no time" },
		{ "{\"token\": \"" SECRET "\", \"expires_at_ms\": 1e300}", "no time" },
		{ "{\"token\": \"" SECRET "\", \"expires_at_ms\": 1700000029999}", "ends in 29 s" },
		{ "{\"token\": \"" SECRET "\", \"expires_at_ms\": 1700000000}", "in milliseconds" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct token token;
		struct err err = ERR_INIT;

		if (read_text(&token, cases[i].text, &err) != FAULT_KAFKA ||
			strstr(err.text, cases[i].why) == NULL)
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_null(strstr(err.text, SECRET));
		assert_null(token.value);
	}
}

static void a_token_that_is_too_long_or_has_a_nul_is_refused(void **state)
{
	CLEANUP(freep) char *text = malloc(TOKEN_TEXT_MAX + 1);
	struct token token;
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(text);
	memset(text, 'a', TOKEN_TEXT_MAX + 1);
	assert_int_equal(token_read(&token, (struct bytes){ text, TOKEN_TEXT_MAX + 1 }, NOW, &err),
		FAULT_KAFKA);
	assert_non_null(strstr(err.text, "longer than 64 KiB"));
	assert_int_equal(token_read(&token, (struct bytes){ "a\0b", 3 }, NOW, &err), FAULT_KAFKA);
	assert_non_null(strstr(err.text, "NUL"));
}

static void there_are_at_most_32_extensions(void **state)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFG";
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct token token;
	struct err err = ERR_INIT;

	(void)state;
	buf_add_str(&text,
		"{\"token\": \"" SECRET "\", \"expires_at_ms\": " SOON ", \"extensions\": {");
	for (size_t i = 0; i < TOKEN_EXTENSIONS_MAX; i++)
		buf_addf(&text, "%s\"%c\": \"x\"", i == 0 ? "" : ", ", letters[i]);
	buf_add_str(&text, "}}");
	assert_int_equal(read_text(&token, buf_str(&text), &err), 0);
	token_fini(&token);
	buf_cut(&text, text.length - 2);
	buf_addf(&text, ", \"%c\": \"x\"}}", letters[TOKEN_EXTENSIONS_MAX]);
	assert_int_equal(read_text(&token, buf_str(&text), &err), FAULT_KAFKA);
	assert_non_null(strstr(err.text, "at most 32 texts"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_members_of_an_object_are_read),
		cmocka_unit_test(a_null_is_as_if_it_were_not_there),
		cmocka_unit_test(a_web_token_says_itself_when_it_ends_and_whose_it_is),
		cmocka_unit_test(what_is_beside_a_web_token_counts_more),
		cmocka_unit_test(garbage_is_refused_and_not_repeated),
		cmocka_unit_test(a_token_that_is_too_long_or_has_a_nul_is_refused),
		cmocka_unit_test(there_are_at_most_32_extensions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
