/* What tells two records of the same offset and timestamp apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/message/message.h"

static struct log_digest digest_of(const char *key, const char *payload, const char *headers)
{
	struct message message = {
		.key = bytes_of(key), .payload = bytes_of(payload), .headers = bytes_of(headers)
	};
	struct digester *digester = NULL;
	struct buf scratch = BUF_INIT;
	struct log_digest digest;
	unsigned char sum[32];

	assert_int_equal(digester_new(&digester, NULL), 0);
	assert_int_equal(digester_sha256(digester, message.payload, sum), 0);
	memcpy(message.digest, sum, sizeof(message.digest));
	digest = log_digest_of(digester, &scratch, &message);
	assert_true(digest.known);
	buf_fini(&scratch);
	digester_free(digester);
	return digest;
}

static void key_value_and_headers_change_the_digest(void **state)
{
	static const char *const records[][3] = {
		{ "k", "v", "[]" },
		{ "l", "v", "[]" },
		{ "k", "w", "[]" },
		{ "k", "v", "[[\"id\",\"1\"]]" },
		{ NULL, "v", "[]" },
		{ "", "v", "[]" },
		{ "k", NULL, "[]" },
		{ "k", "", "[]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		struct log_digest one = digest_of(records[i][0], records[i][1], records[i][2]);

		for (size_t j = 0; j < sizeof(records) / sizeof(records[0]); j++) {
			struct log_digest other =
				digest_of(records[j][0], records[j][1], records[j][2]);

			assert_int_equal(log_digest_differs(&one, &other), i != j);
		}
	}
}

static void an_unknown_digest_differs_from_no_digest(void **state)
{
	struct log_digest one = digest_of("k", "v", "[]");
	struct log_digest unknown = { .known = false };

	(void)state;
	assert_false(log_digest_differs(&one, &unknown));
	assert_false(log_digest_differs(&unknown, &one));
}

/* Digests are in tables: what they are computed from stays. Another one would make each log look like another. */
static void the_digest_does_not_change_between_versions(void **state)
{
	struct log_digest digest = digest_of("key", "value", "[[\"id\",\"7\"]]");
	char text[33];

	(void)state;
	for (size_t i = 0; i < sizeof(digest.bytes); i++)
		(void)snprintf(text + 2 * i, 3, "%02x", digest.bytes[i]);
	assert_string_equal(text, "eac6e2d250f2a76116316d48a2584828");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_value_and_headers_change_the_digest),
		cmocka_unit_test(an_unknown_digest_differs_from_no_digest),
		cmocka_unit_test(the_digest_does_not_change_between_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
