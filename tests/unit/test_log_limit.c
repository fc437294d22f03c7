/* Repeats of a log line: which pass, which are counted, and when the count comes. The clock is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/log_limit.h"

#define START 1000000

static int made(void **state)
{
	static const struct log_limit fresh = LOG_LIMIT_INIT;
	struct log_limit *limit = malloc(sizeof(*limit));

	if (limit == NULL)
		return -1;
	memcpy(limit, &fresh, sizeof(fresh));
	*state = limit;
	return 0;
}

static int freed(void **state)
{
	free(*state);
	return 0;
}

/* How many of `count` lines pass at one moment. */
static int passing(
	struct log_limit *limit, const char *event, const char *key, int count, int64_t now_ms)
{
	int passed = 0;

	for (int i = 0; i < count; i++)
		passed += log_limit_pass(limit, event, key, LOG_WARN, now_ms);
	return passed;
}

static void some_lines_are_written_and_the_others_counted(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;

	assert_int_equal(passing(limit, "lost", "orders/3", 1000, START), LOG_LIMIT_LINES);
	assert_false(log_limit_take(limit, START + LOG_LIMIT_WINDOW_MS - 1, false, &held));
	assert_true(log_limit_take(limit, START + LOG_LIMIT_WINDOW_MS, false, &held));
	assert_string_equal(held.event, "lost");
	assert_string_equal(held.key, "orders/3");
	assert_int_equal(held.level, LOG_WARN);
	assert_int_equal(held.held, 1000 - LOG_LIMIT_LINES);
	assert_false(log_limit_take(limit, START + 10 * LOG_LIMIT_WINDOW_MS, false, &held));
}

static void without_suppressed_lines_nothing_is_reported(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;

	assert_int_equal(passing(limit, "lost", "", LOG_LIMIT_LINES, START), LOG_LIMIT_LINES);
	assert_false(log_limit_take(limit, START + LOG_LIMIT_WINDOW_MS, true, &held));
}

static void another_key_or_event_is_not_a_repetition(void **state)
{
	struct log_limit *limit = *state;

	assert_int_equal(passing(limit, "lost", "orders/3", 100, START), LOG_LIMIT_LINES);
	assert_int_equal(passing(limit, "lost", "orders/4", 1, START), 1);
	assert_int_equal(passing(limit, "found", "orders/3", 1, START), 1);
	assert_int_equal(passing(limit, "lost", "orders/3", 1, START), 0);
}

static void a_new_window_writes_some_lines_and_keeps_the_count(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;

	(void)passing(limit, "lost", "", 15, START);
	assert_int_equal(
		passing(limit, "lost", "", 15, START + LOG_LIMIT_WINDOW_MS), LOG_LIMIT_LINES);
	assert_true(log_limit_take(limit, START + LOG_LIMIT_WINDOW_MS, true, &held));
	assert_int_equal(held.held, 10);
}

static void at_the_end_all_counts_are_due(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;

	(void)passing(limit, "lost", "a", 11, START);
	(void)passing(limit, "lost", "b", 12, START);
	assert_false(log_limit_take(limit, START, false, &held));
	assert_true(log_limit_take(limit, START, true, &held));
	assert_int_equal(held.held, 1);
	assert_true(log_limit_take(limit, START, true, &held));
	assert_int_equal(held.held, 2);
	assert_false(log_limit_take(limit, START, true, &held));
}

static void beyond_its_slots_all_other_keys_share_one(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held = { .event = "" };
	char key[16];
	int passed = 0;

	for (int i = 0; i < LOG_LIMIT_PLACES + 1000; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		passed += log_limit_pass(limit, "lost", key, LOG_WARN, START);
	}
	assert_int_equal(passed, LOG_LIMIT_PLACES + LOG_LIMIT_LINES);
	assert_true(log_limit_take(limit, START, true, &held));
	assert_string_equal(held.event, "various");
	assert_int_equal(held.held, 1000 - LOG_LIMIT_LINES);
}

static void a_slot_is_free_after_its_window(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;
	char key[16];

	for (int i = 0; i < LOG_LIMIT_PLACES; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		assert_true(log_limit_pass(limit, "lost", key, LOG_WARN, START));
	}
	assert_int_equal(
		passing(limit, "new", "", 11, START + LOG_LIMIT_WINDOW_MS), LOG_LIMIT_LINES);
	assert_true(log_limit_take(limit, START, true, &held));
	assert_string_equal(held.event, "new");
}

static void a_long_key_is_cut(void **state)
{
	struct log_limit *limit = *state;
	struct log_seen held;
	char key[500];

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(passing(limit, "lost", key, 11, START), LOG_LIMIT_LINES);
	assert_true(log_limit_take(limit, START, true, &held));
	assert_int_equal(strlen(held.key), LOG_LIMIT_KEY_BYTES - 1);
}

#define LIMITED(test) cmocka_unit_test_setup_teardown(test, made, freed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMITED(some_lines_are_written_and_the_others_counted),
		LIMITED(without_suppressed_lines_nothing_is_reported),
		LIMITED(another_key_or_event_is_not_a_repetition),
		LIMITED(a_new_window_writes_some_lines_and_keeps_the_count),
		LIMITED(at_the_end_all_counts_are_due),
		LIMITED(beyond_its_slots_all_other_keys_share_one),
		LIMITED(a_slot_is_free_after_its_window),
		LIMITED(a_long_key_is_cut),
	};

	return cmocka_run_group_tests_name("log_limit", tests, NULL, NULL);
}
