/* Whether one more event is likely within a wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time/rate.h"

#define WAIT_MS INT64_C(5)
#define SECOND  INT64_C(1000)

/* Adds events as they come at this rate, in groups of `together`, in [from_ms, until_ms). Returns how often one more was
 * likely, in thousandths of the events. */
static int64_t run(
	struct rate *rate, int64_t per_second, int64_t together, int64_t from_ms, int64_t until_ms)
{
	int64_t events = 0;
	int64_t likely = 0;

	for (int64_t n = 0;; n += together) {
		int64_t now_ms = from_ms + n * 1000 / per_second;

		if (now_ms >= until_ms)
			return events == 0 ? 0 : likely * 1000 / events;
		rate_add(rate, now_ms, together);
		events++;
		likely += rate_expected(rate, now_ms, WAIT_MS) >= 1;
	}
}

static void another_one_is_likely_from_one_in_a_wait_on(void **state)
{
	static const struct {
		int64_t per_second, together;
		bool likely;
	} cases[] = {
		{ 1, 1, false },
		{ 20, 1, false },
		{ 100, 1, false },
		{ 150, 1, false },
		{ 300, 1, true },
		{ 1000, 1, true },
		{ 60000, 1, true },
		/* the same rates, from a producer that sends several records in a request */
		{ 100, 5, false },
		{ 50, 10, false },
		{ 1000, 10, true },
		{ 60000, 500, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rate rate;

		rate_init(&rate, WAIT_MS);
		(void)run(&rate, cases[i].per_second, cases[i].together, SECOND, 2 * SECOND);
		assert_int_equal(
			run(&rate, cases[i].per_second, cases[i].together, 2 * SECOND, 5 * SECOND),
			cases[i].likely ? 1000 : 0);
	}
}

static void after_a_silence_the_first_ones_are_alone(void **state)
{
	struct rate rate;

	(void)state;
	rate_init(&rate, WAIT_MS);
	(void)run(&rate, 60000, 1, 0, SECOND);
	assert_true(rate_expected(&rate, SECOND, WAIT_MS) >= 1);
	assert_int_equal(rate_expected(&rate, SECOND + WAIT_MS * 2 * RATE_WAITS, WAIT_MS), 0);
	rate_add(&rate, 60 * SECOND, 1);
	assert_int_equal(rate_expected(&rate, 60 * SECOND, WAIT_MS), 0);
}

static void a_burst_is_seen_from_its_first_records_on(void **state)
{
	struct rate rate;

	(void)state;
	rate_init(&rate, WAIT_MS);
	rate_add(&rate, 60 * SECOND, RATE_WAITS - 1);
	assert_int_equal(rate_expected(&rate, 60 * SECOND, WAIT_MS), 0);
	rate_add(&rate, 60 * SECOND, 1);
	assert_int_equal(rate_expected(&rate, 60 * SECOND, WAIT_MS), 1);
	rate_add(&rate, 60 * SECOND, 984);
	assert_int_equal(rate_expected(&rate, 60 * SECOND, WAIT_MS), 1000 / RATE_WAITS);
}

static void the_number_is_that_of_the_time_asked_for(void **state)
{
	struct rate rate;

	(void)state;
	rate_init(&rate, WAIT_MS);
	(void)run(&rate, 1000, 1, 0, SECOND);
	assert_in_range(rate_expected(&rate, SECOND, WAIT_MS), 4, 5);
	assert_in_range(rate_expected(&rate, SECOND, 4 * WAIT_MS), 18, 20);
}

static void without_a_wait_nothing_is_expected(void **state)
{
	struct rate rate;

	(void)state;
	rate_init(&rate, 0);
	rate_add(&rate, SECOND, 1000);
	assert_int_equal(rate_expected(&rate, SECOND, 0), 0);
}

/* The longest setting, and more events than it can have. */
static void a_long_wait_does_not_overflow(void **state)
{
	const int64_t wait_ms = 60 * SECOND;
	struct rate rate;

	(void)state;
	rate_init(&rate, wait_ms);
	rate_add(&rate, 0, 1000000000);
	rate_add(&rate, RATE_WAITS * wait_ms, 1000000000);
	assert_int_equal(
		rate_expected(&rate, RATE_WAITS * wait_ms, wait_ms), 2000000000 / RATE_WAITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_one_is_likely_from_one_in_a_wait_on),
		cmocka_unit_test(after_a_silence_the_first_ones_are_alone),
		cmocka_unit_test(a_burst_is_seen_from_its_first_records_on),
		cmocka_unit_test(the_number_is_that_of_the_time_asked_for),
		cmocka_unit_test(without_a_wait_nothing_is_expected),
		cmocka_unit_test(a_long_wait_does_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
