/* libpq's error texts distinguish an unreachable server from an error of the configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/pg/connect/connect_fault.h"

#define AT(host, port) "connection to server at \"" host "\" (127.0.0.1), port " port " failed: "
#define REFUSED        "Connection refused\n\tIs the server running on that host?\n"

static void the_sqlstate_is_extracted_from_the_error_text(void **state)
{
	static const struct {
		const char *words;
		const char *state;
	} cases[] = {
		{ AT("db", "5432") "FATAL:  28P01: password authentication failed\nLOCATION:  "
				   "a.c:1\n",
			"28P01" },
		{ AT("db", "5432") "FATALE:  3D000: la base n'existe pas\n", "3D000" },
		{ AT("db", "5432") "FATAL:  57P03: the database system is starting up\n", "57P03" },
		{ AT("db", "5432") REFUSED, "" },
		{ "invalid port number: \"65536\"\n", "F0000" },
		{ AT("db", "5432") "server doesn't support GSSAPI encryption, but it was "
				   "required\n",
			"F0000" },
		{ AT("db", "5432") "server does not support SSL, but SSL was required\n", "F0000" },
		{ AT("db", "5432") "server closed the connection unexpectedly\n", "" },
		{ AT("db", "5432") "server is in hot standby mode\n", "" },
		{ "could not translate host name \"db\" to address: Name or service not known\n",
			"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char found[6];

		connect_state(cases[i].words, false, found);
		assert_string_equal(found, cases[i].state);
	}
}

static void an_unreachable_host_takes_precedence_over_refusals_of_others(void **state)
{
	char found[6];

	(void)state;
	connect_state(AT("a", "1") REFUSED AT("b", "1") "FATAL:  28P01: no\n", false, found);
	assert_string_equal(found, "");
	connect_state(AT("a", "1") "FATAL:  28P01: no\n" AT("a", "2") REFUSED, false, found);
	assert_string_equal(found, "");
	connect_state(AT("a", "1") "FATAL:  28P01: no\n" AT("b", "1") "FATAL:  3D000: no\n", false,
		found);
	assert_string_equal(found, "3D000");
}

static void for_several_addresses_of_a_host_the_last_one_counts(void **state)
{
	char found[6];

	(void)state;
	connect_state("connection to server at \"localhost\" (::1), port 5432 failed: " REFUSED AT(
			      "localhost", "5432") "FATAL:  28P01: no\n",
		false, found);
	assert_string_equal(found, "28P01");
}

static void a_server_that_wants_a_password_needs_another_setting(void **state)
{
	const char *words = AT("db", "5432") "fe_sendauth: no password supplied\n";
	char found[6];

	(void)state;
	connect_state(words, true, found);
	assert_string_equal(found, "F0000");
	connect_state(AT("a", "1") REFUSED AT("b", "1") "no password\n", true, found);
	assert_string_equal(found, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sqlstate_is_extracted_from_the_error_text),
		cmocka_unit_test(an_unreachable_host_takes_precedence_over_refusals_of_others),
		cmocka_unit_test(a_server_that_wants_a_password_needs_another_setting),
		cmocka_unit_test(for_several_addresses_of_a_host_the_last_one_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
