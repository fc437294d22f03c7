/* When verdicts have waited enough for company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/table/settle_batching.h"

#define NOW 1000000

/* Under load: the last verdict came a millisecond ago. */
static struct settle_batching under_load(size_t verdicts, size_t in_flight)
{
	return (struct settle_batching){
		.verdicts = verdicts, .in_flight = in_flight, .most = 5000, .since_ms = NOW - 2
	};
}

static void with_little_under_way_half_of_it_is_enough(void **state)
{
	struct settle_batching company = under_load(50, 100);

	(void)state;
	assert_true(settle_batching_is_due(&company, NOW));
	company.verdicts = 49;
	assert_false(settle_batching_is_due(&company, NOW));
	assert_true(settle_batching_is_due(&company, NOW + SETTLE_BATCH_WAIT_MS));
}

static void under_load_they_wait_longer(void **state)
{
	struct settle_batching company = under_load(400, 900);

	(void)state;
	company.since_ms = NOW - SETTLE_BATCH_WAIT_MS;
	assert_false(settle_batching_is_due(&company, NOW));
	company.since_ms = NOW - SETTLE_BATCH_LONG_WAIT_MS;
	assert_true(settle_batching_is_due(&company, NOW));
}

static void a_thousand_are_enough(void **state)
{
	struct settle_batching company = under_load(SETTLE_BATCH_FULL, 5000);

	(void)state;
	assert_true(settle_batching_is_due(&company, NOW));
	company.verdicts--;
	assert_false(settle_batching_is_due(&company, NOW));
}

static void who_is_about_to_be_delivered_counts_as_company(void **state)
{
	struct settle_batching company = under_load(60, 64);

	(void)state;
	assert_true(settle_batching_is_due(&company, NOW));
	company.ready = 1000;
	assert_false(settle_batching_is_due(&company, NOW));
}

/* There never are a thousand where max_in_flight is less; half of it is still with the handlers. */
static void half_of_what_may_be_in_flight_is_enough(void **state)
{
	struct settle_batching company = under_load(150, 300);

	(void)state;
	company.most = 300;
	assert_true(settle_batching_is_due(&company, NOW));
	company.verdicts = 149;
	assert_false(settle_batching_is_due(&company, NOW));
}

/* A handler that stands still holds most of what may be in flight: it does not slow the others down. */
static void who_is_held_up_waits_no_longer_than_usual(void **state)
{
	struct settle_batching company = under_load(100, 1000);

	(void)state;
	company.since_ms = NOW - SETTLE_BATCH_WAIT_MS;
	assert_false(settle_batching_is_due(&company, NOW));
	company.held_up = true;
	assert_true(settle_batching_is_due(&company, NOW));
}

static void with_few_keys_nobody_waits_for_more_than_half(void **state)
{
	struct settle_batching company = under_load(150, 300);

	(void)state;
	company.behind = 300;
	assert_true(settle_batching_is_due(&company, NOW));
	company.behind = 299;
	assert_false(settle_batching_is_due(&company, NOW));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_little_under_way_half_of_it_is_enough),
		cmocka_unit_test(under_load_they_wait_longer),
		cmocka_unit_test(a_thousand_are_enough),
		cmocka_unit_test(who_is_about_to_be_delivered_counts_as_company),
		cmocka_unit_test(half_of_what_may_be_in_flight_is_enough),
		cmocka_unit_test(who_is_held_up_waits_no_longer_than_usual),
		cmocka_unit_test(with_few_keys_nobody_waits_for_more_than_half),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
