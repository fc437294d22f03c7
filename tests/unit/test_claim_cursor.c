/* The start of a scan for due rows, and the time of the next full scan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/table/claims/claim_cursor.h"

static int setup(void **state)
{
	static struct claim_cursor starts;

	*state = &starts;
	return 0;
}

static int teardown(void **state)
{
	claim_cursor_fini(*state);
	return 0;
}

static void looked(struct claim_cursor *starts, bool full, bool plenty, int64_t now_ms)
{
	const struct due_scan scan = { full, plenty, 10, now_ms };

	claim_cursor_finish_scan(starts, &scan);
}

static void the_first_scan_is_full_and_starts_at_the_first_row(void **state)
{
	assert_true(claim_cursor_is_full(*state, 1));
	assert_int_equal(claim_cursor_get(*state, 3), -1);
}

static void a_scan_starts_where_the_previous_one_ended(void **state)
{
	struct claim_cursor *starts = *state;

	claim_cursor_note(starts, 2, 500, true);
	claim_cursor_note(starts, 2, 700, false);
	assert_int_equal(claim_cursor_get(starts, 2), 700);
	assert_int_equal(claim_cursor_get(starts, 0), -1);
	claim_cursor_note(starts, 2, 600, false); /* the slower one of two concurrent scans */
	assert_int_equal(claim_cursor_get(starts, 2), 700);
}

static void a_scan_continues_at_rows_found_behind_the_cursor(void **state)
{
	struct claim_cursor *starts = *state;

	claim_cursor_note(starts, 0, 700, false);
	claim_cursor_note(starts, 0, 300, true);
	assert_int_equal(claim_cursor_get(starts, 0), 300);
}

static void with_many_rows_one_scan_a_second_is_full(void **state)
{
	struct claim_cursor *starts = *state;

	looked(starts, true, true, 5000);
	assert_false(claim_cursor_is_full(starts, 5999));
	looked(starts, false, true, 5500);
	assert_false(claim_cursor_is_full(starts, 5999));
	assert_true(claim_cursor_is_full(starts, 6000));
}

static void slow_full_scans_are_rare(void **state)
{
	struct claim_cursor *starts = *state;
	const struct due_scan scan = { true, true, 200, 5000 };

	claim_cursor_finish_scan(starts, &scan);
	assert_false(claim_cursor_is_full(starts, 8999));
	assert_true(claim_cursor_is_full(starts, 9000));
}

static void a_full_scan_that_waited_for_a_lock_delays_the_next_only_briefly(void **state)
{
	struct claim_cursor *starts = *state;
	const struct due_scan scan = { true, true, 60000, 5000 };

	claim_cursor_finish_scan(starts, &scan);
	assert_true(claim_cursor_is_full(starts, 25000));
}

static void a_partition_is_empty_only_after_a_full_scan(void **state)
{
	struct claim_cursor *starts = *state;

	looked(starts, true, true, 5000);
	looked(starts, false, false, 5020);
	assert_false(claim_cursor_is_full(starts, 5039)); /* four times the duration of a scan */
	assert_true(claim_cursor_is_full(starts, 5040));
}

static void a_forgotten_cursor_starts_a_full_scan_at_once(void **state)
{
	struct claim_cursor *starts = *state;

	claim_cursor_note(starts, 1, 700, true);
	looked(starts, true, false, 5000);
	claim_cursor_forget(starts);
	assert_int_equal(claim_cursor_get(starts, 1), -1);
	assert_true(claim_cursor_is_full(starts, 5001));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_scan_is_full_and_starts_at_the_first_row),
		TEST(a_scan_starts_where_the_previous_one_ended),
		TEST(a_scan_continues_at_rows_found_behind_the_cursor),
		TEST(with_many_rows_one_scan_a_second_is_full),
		TEST(slow_full_scans_are_rare),
		TEST(a_full_scan_that_waited_for_a_lock_delays_the_next_only_briefly),
		TEST(a_partition_is_empty_only_after_a_full_scan),
		TEST(a_forgotten_cursor_starts_a_full_scan_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
