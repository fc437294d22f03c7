/* When verdicts have waited enough for company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/company.h"

#define NOW 1000000

/* Under load: the last verdict came a millisecond ago. */
static struct company under_load(size_t verdicts, size_t in_flight)
{
	return (struct company){ .verdicts = verdicts,
		.in_flight = in_flight,
		.since_ms = NOW - 2,
		.last_ms = NOW - 1 };
}

static void with_little_under_way_half_of_it_is_enough(void **state)
{
	struct company company = under_load(50, 100);

	(void)state;
	assert_true(company_is_enough(&company, NOW));
	company.verdicts = 49;
	assert_false(company_is_enough(&company, NOW));
	assert_true(company_is_enough(&company, NOW + COMPANY_WAIT_MS));
}

static void under_load_they_wait_longer(void **state)
{
	struct company company = under_load(400, 900);

	(void)state;
	company.since_ms = NOW - COMPANY_WAIT_MS;
	assert_false(company_is_enough(&company, NOW));
	company.since_ms = NOW - COMPANY_LONGER_MS;
	assert_true(company_is_enough(&company, NOW));
}

static void a_thousand_are_enough(void **state)
{
	struct company company = under_load(COMPANY_ENOUGH, 5000);

	(void)state;
	assert_true(company_is_enough(&company, NOW));
	company.verdicts--;
	assert_false(company_is_enough(&company, NOW));
}

/* max_in_flight, or the share of one handler, may be less than what is enough. */
static void who_holds_all_that_may_be_in_flight_waits_for_nobody(void **state)
{
	struct company company = under_load(300, 300);

	(void)state;
	assert_true(company_is_enough(&company, NOW));
	company.verdicts = 200; /* the others are with a handler that takes its time */
	assert_true(company_is_enough(&company, NOW));
}

static void behind_a_settle_under_way_they_gather(void **state)
{
	struct company company = under_load(600, 900);

	(void)state;
	company.settles = 1;
	assert_false(company_is_enough(&company, NOW));
}

/* A handler that stands still holds most of what is in flight: it does not slow the others down. */
static void when_no_more_come_the_wait_is_over(void **state)
{
	struct company company = under_load(100, 1000);

	(void)state;
	assert_false(company_is_enough(&company, NOW));
	company.last_ms = NOW - COMPANY_WAIT_MS;
	assert_true(company_is_enough(&company, NOW));
}

static void with_few_keys_nobody_waits_for_more_than_half(void **state)
{
	struct company company = under_load(150, 300);

	(void)state;
	company.settles = 1;
	company.behind = 300;
	assert_true(company_is_enough(&company, NOW));
	company.behind = 299;
	assert_false(company_is_enough(&company, NOW));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_little_under_way_half_of_it_is_enough),
		cmocka_unit_test(under_load_they_wait_longer),
		cmocka_unit_test(a_thousand_are_enough),
		cmocka_unit_test(who_holds_all_that_may_be_in_flight_waits_for_nobody),
		cmocka_unit_test(behind_a_settle_under_way_they_gather),
		cmocka_unit_test(when_no_more_come_the_wait_is_over),
		cmocka_unit_test(with_few_keys_nobody_waits_for_more_than_half),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
