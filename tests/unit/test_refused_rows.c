/* Waiting rows that claims leave out, for growing pauses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/table/claims/refused_rows.h"

static void three_consecutive_failures_start_a_probe(void **state)
{
	struct refused_rows rows = { NULL };

	(void)state;
	for (int i = 0; i < 2; i++)
		refused_rows_failed(&rows, true);
	assert_false(refused_rows_should_probe(&rows, 0));
	refused_rows_failed(&rows, false);
	for (int i = 0; i < 2; i++)
		refused_rows_failed(&rows, true);
	assert_false(refused_rows_should_probe(&rows, 0));
	refused_rows_failed(&rows, true);
	assert_true(refused_rows_should_probe(&rows, 0));
	refused_rows_probed(&rows);
	assert_false(refused_rows_should_probe(&rows, 0));
}

static void a_refused_row_is_excluded_for_longer_each_time(void **state)
{
	struct refused_rows rows = { NULL };
	int64_t now_ms = 1000;
	int64_t before = 0;
	bool first;

	(void)state;
	for (int i = 0; i < 20; i++) {
		int64_t pause = refused_rows_note(&rows, 7, now_ms, &first);

		assert_int_equal(first, i == 0);
		assert_true(pause > before || pause == 60000);
		before = pause;
		assert_int_equal(refused_rows_each(&rows, now_ms + pause - 1, NULL, NULL), 1);
		assert_false(refused_rows_should_probe(&rows, now_ms + pause - 1));
		now_ms += pause;
		assert_int_equal(refused_rows_each(&rows, now_ms, NULL, NULL), 0);
		assert_true(refused_rows_should_probe(&rows, now_ms));
		refused_rows_probed(&rows);
		assert_false(refused_rows_should_probe(&rows, now_ms));
	}
	refused_rows_fini(&rows);
}

static void an_accepted_row_is_forgotten(void **state)
{
	struct refused_rows rows = { NULL };
	int64_t pause;
	bool first;

	(void)state;
	pause = refused_rows_note(&rows, 7, 0, &first);
	assert_true(refused_rows_should_probe(&rows, 3600000));
	assert_int_equal(rows.count, 0);
	assert_int_equal(refused_rows_note(&rows, 7, 3600000, &first), pause);
	assert_true(first);
	refused_rows_fini(&rows);
}

static void above_the_limit_the_oldest_row_is_forgotten(void **state)
{
	struct refused_rows rows = { NULL };
	bool first;

	(void)state;
	for (int64_t seq = 0; seq <= REFUSED_ROWS_MOST; seq++)
		(void)refused_rows_note(&rows, seq, seq, &first);
	assert_int_equal(rows.count, REFUSED_ROWS_MOST);
	(void)refused_rows_note(&rows, 1, REFUSED_ROWS_MOST, &first);
	assert_false(first);
	(void)refused_rows_note(&rows, 0, REFUSED_ROWS_MOST, &first);
	assert_true(first);
	refused_rows_fini(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_consecutive_failures_start_a_probe),
		cmocka_unit_test(a_refused_row_is_excluded_for_longer_each_time),
		cmocka_unit_test(an_accepted_row_is_forgotten),
		cmocka_unit_test(above_the_limit_the_oldest_row_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
