/* The log level over HTTP, without a server: who may set it, to what, and what is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/log_level.h"

static int at_info(void **state)
{
	(void)state;
	log_configure(LOG_INFO, false);
	return 0;
}

static int set(const char *body, const char *peer)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT;
	const struct http_client client = { .peer = peer, .own = "127.0.0.1" };

	return http_level_set(bytes_of(body), &client, &answer);
}

static void a_level_is_set_and_shown(void **state)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT;
	const struct http_client client = { .peer = "127.0.0.1", .own = "127.0.0.1" };

	(void)state;
	assert_int_equal(http_level_set(bytes_of(" debug\r\n"), &client, &answer), 200);
	assert_string_equal(buf_str(&answer), "{\"level\":\"debug\"}\n");
	assert_true(log_enabled(LOG_DEBUG));
	buf_reset(&answer);
	http_level_show(&answer);
	assert_string_equal(buf_str(&answer), "{\"level\":\"debug\"}\n");
}

static void an_invalid_level_changes_nothing(void **state)
{
	const struct http_client client = { .peer = "::1", .own = "::1" };
	static const char *const wrong[] = { NULL, "", " ", "loud", "DEBUG", "debug info",
		"debugger", "{\"level\":\"debug\"}", "warning" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(set(wrong[i], "::1"), 400);
	assert_int_equal(
		http_level_set((struct bytes){ "warn\0", 5 }, &client, &(struct buf){ .limit = 1 }),
		400);
	assert_int_equal(log_get_level(), LOG_INFO);
}

static void only_this_host_can_set_the_level(void **state)
{
	static const char *const others[] = { "", "10.0.0.7", "::2", "::ffff:10.0.0.7",
		"1270.0.0.1", "2001:db8::1" };
	static const char *const ours[] = { "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1" };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(set("error", others[i]), 403);
	assert_int_equal(log_get_level(), LOG_INFO);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		assert_int_equal(set("warn", ours[i]), 200);
	assert_int_equal(log_get_level(), LOG_WARN);
}

static void a_client_with_the_address_of_the_server_is_on_this_host(void **state)
{
	static const struct {
		struct http_client client;
		bool ours;
	} cases[] = {
		{ { "10.0.0.7", "10.0.0.7", false }, true },
		{ { "::ffff:10.0.0.7", "10.0.0.7", false }, true },
		{ { "2001:db8::1", "2001:db8::1", false }, true },
		{ { "10.0.0.7", "10.0.0.8", false }, false },
		{ { "10.0.0.7", "", false }, false },
		{ { "", "", false }, false },
		{ { "127.0.0.1", "127.0.0.1", true }, false },
		{ { "10.0.0.7", "10.0.0.7", true }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(http_is_this_host(&cases[i].client), cases[i].ours);
}

static void the_answer_to_another_client_names_the_proxy(void **state)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT;
	const struct http_client client = { "127.0.0.1", "127.0.0.1", true };

	(void)state;
	assert_int_equal(http_level_set(bytes_of("debug"), &client, &answer), 403);
	assert_non_null(strstr(buf_str(&answer), "a proxy has passed this request on"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_level_is_set_and_shown, at_info),
		cmocka_unit_test_setup(an_invalid_level_changes_nothing, at_info),
		cmocka_unit_test_setup(only_this_host_can_set_the_level, at_info),
		cmocka_unit_test(a_client_with_the_address_of_the_server_is_on_this_host),
		cmocka_unit_test_setup(the_answer_to_another_client_names_the_proxy, at_info),
	};

	return cmocka_run_group_tests_name("http_level", tests, NULL, NULL);
}
