/* Consecutive batches that PostgreSQL refuses: when their rows are tried one by one, and when a retry waits for
 * another row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingest/batch/refused_batches.h"

static void refuse(struct refused_batches *refused, const char *sqlstate, size_t rows, int times)
{
	struct err err = ERR_INIT;

	memcpy(err.state, sqlstate, sizeof(err.state));
	for (int i = 0; i < times; i++)
		refused_batches_note(refused, &err, rows);
}

static void after_three_refusals_the_rows_are_tried_one_by_one(void **state)
{
	struct refused_batches refused = { .count = 0 };

	(void)state;
	refuse(&refused, "P0001", 5, 2);
	assert_false(refused_batches_are_enough(&refused));
	refuse(&refused, "P0001", 5, 1);
	assert_true(refused_batches_are_enough(&refused));
	refused_batches_forget(&refused);
	assert_false(refused_batches_are_enough(&refused));
}

static void another_sqlstate_or_an_outage_restarts_the_count(void **state)
{
	struct refused_batches refused = { .count = 0 };

	(void)state;
	refuse(&refused, "P0001", 5, 2);
	refuse(&refused, "XX001", 5, 1);
	assert_false(refused_batches_are_enough(&refused));
	refuse(&refused, "XX001", 5, 1);
	refuse(&refused, "57P01", 5, 1);
	refuse(&refused, "XX001", 5, 1);
	assert_false(refused_batches_are_enough(&refused));
}

static void a_retry_of_the_same_refused_rows_waits_for_another_row(void **state)
{
	struct refused_batches refused = { .count = 0 };

	(void)state;
	refuse(&refused, "P0001", 1, 3);
	assert_false(refused_batches_need_others(&refused, 1)); /* not tried one by one yet */
	refuse(&refused, "P0001", 1, 1);
	assert_true(refused_batches_need_others(&refused, 1));
	assert_false(refused_batches_need_others(&refused, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_three_refusals_the_rows_are_tried_one_by_one),
		cmocka_unit_test(another_sqlstate_or_an_outage_restarts_the_count),
		cmocka_unit_test(a_retry_of_the_same_refused_rows_waits_for_another_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
