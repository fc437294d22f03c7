/* The log level over HTTP, without a server: who may set it, to what, and what is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

	return http_level_set(bytes_of(body), peer, &answer);
}

static void a_level_is_set_and_shown(void **state)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT;

	(void)state;
	assert_int_equal(http_level_set(bytes_of(" debug\r\n"), "127.0.0.1", &answer), 200);
	assert_string_equal(buf_str(&answer), "{\"level\":\"debug\"}\n");
	assert_true(log_enabled(LOG_DEBUG));
	buf_reset(&answer);
	http_level_show(&answer);
	assert_string_equal(buf_str(&answer), "{\"level\":\"debug\"}\n");
}

static void an_invalid_level_changes_nothing(void **state)
{
	static const char *const wrong[] = { NULL, "", " ", "loud", "DEBUG", "debug info",
		"debugger", "{\"level\":\"debug\"}", "warning" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(set(wrong[i], "::1"), 400);
	assert_int_equal(
		http_level_set((struct bytes){ "warn\0", 5 }, "::1", &(struct buf){ .limit = 1 }),
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_level_is_set_and_shown, at_info),
		cmocka_unit_test_setup(an_invalid_level_changes_nothing, at_info),
		cmocka_unit_test_setup(only_this_host_can_set_the_level, at_info),
	};

	return cmocka_run_group_tests_name("http_level", tests, NULL, NULL);
}
