/* When verdicts have waited enough for batching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/table/settle/settle_batching.h"

#define NOW 1000000

/* This many verdicts in the last second. */
static const struct rate *per_second(int64_t count)
{
	static struct rate rate;

	rate_init(&rate, SETTLE_BATCH_WAIT_MS);
	for (int64_t n = 0; n < count; n++)
		rate_add(&rate, NOW - 1000 + n * 1000 / count, 1);
	return &rate;
}

/* Under load: the last verdict came a millisecond ago. */
static struct settle_batching under_load(size_t verdicts, size_t in_flight)
{
	return (struct settle_batching){
		.verdicts = verdicts,
		.in_flight = in_flight,
		.most = 5000,
		.rate = per_second(10000),
		.since_ms = NOW - 2,
	};
}

static void with_few_deliveries_half_of_them_is_enough(void **state)
{
	struct settle_batching batching = under_load(50, 100);

	(void)state;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.verdicts = 49;
	assert_false(settle_batching_is_due(&batching, NOW));
	assert_true(settle_batching_is_due(&batching, NOW + SETTLE_BATCH_WAIT_MS));
}

static void under_load_verdicts_wait_longer(void **state)
{
	struct settle_batching batching = under_load(400, 900);

	(void)state;
	batching.since_ms = NOW - SETTLE_BATCH_WAIT_MS;
	assert_false(settle_batching_is_due(&batching, NOW));
	batching.since_ms = NOW - SETTLE_BATCH_LONG_WAIT_MS;
	assert_true(settle_batching_is_due(&batching, NOW));
}

static void a_thousand_verdicts_are_enough(void **state)
{
	struct settle_batching batching = under_load(SETTLE_BATCH_FULL, 5000);

	(void)state;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.verdicts--;
	assert_false(settle_batching_is_due(&batching, NOW));
}

static void ready_messages_count_as_expected_verdicts(void **state)
{
	struct settle_batching batching = under_load(60, 64);

	(void)state;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.ready = 1000;
	assert_false(settle_batching_is_due(&batching, NOW));
}

/* There never are a thousand where max_in_flight is less; half of it is still with the handlers. */
static void half_of_what_may_be_in_flight_is_enough(void **state)
{
	struct settle_batching batching = under_load(150, 300);

	(void)state;
	batching.most = 300;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.verdicts = 149;
	assert_false(settle_batching_is_due(&batching, NOW));
}

/* A handler that stands still holds most of what may be in flight: it does not slow the others down. */
static void with_messages_held_up_the_wait_is_not_extended(void **state)
{
	struct settle_batching batching = under_load(100, 1000);

	(void)state;
	batching.since_ms = NOW - SETTLE_BATCH_WAIT_MS;
	assert_false(settle_batching_is_due(&batching, NOW));
	batching.held_up = true;
	assert_true(settle_batching_is_due(&batching, NOW));
}

static void half_of_the_deliveries_is_enough_when_half_of_the_verdicts_stop_their_lanes(
	void **state)
{
	struct settle_batching batching = under_load(150, 300);

	(void)state;
	batching.behind = 300;
	batching.stopping = 75;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.stopping = 74;
	assert_false(settle_batching_is_due(&batching, NOW));
}

/* With one key, one message at a time has no verdict. The next ones follow without the settle. */
static void messages_behind_others_count_as_expected_verdicts(void **state)
{
	struct settle_batching batching = under_load(20, 21);

	(void)state;
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.behind = 20;
	assert_false(settle_batching_is_due(&batching, NOW));
	assert_true(settle_batching_is_due(&batching, NOW + SETTLE_BATCH_WAIT_MS));
	batching.behind = 300;
	assert_false(settle_batching_is_due(&batching, NOW + SETTLE_BATCH_WAIT_MS));
	assert_true(settle_batching_is_due(&batching, NOW + SETTLE_BATCH_LONG_WAIT_MS));
}

static void an_urgent_verdict_does_not_wait(void **state)
{
	struct settle_batching batching = under_load(1, 1000);

	(void)state;
	assert_false(settle_batching_is_due(&batching, NOW));
	batching.urgent = true;
	assert_true(settle_batching_is_due(&batching, NOW));
}

/* Handlers that take long: many messages are in flight, and few verdicts come. */
static void a_verdict_does_not_wait_for_others_that_do_not_come(void **state)
{
	static const struct {
		int64_t rate;
		size_t in_flight;
		bool due;
	} cases[] = {
		{ 20, 100, true },
		{ 100, 100, true },
		{ 400, 100, false },
		{ 1000, 100, false },
		{ 60000, 100, false },
		/* the long wait can bring one at a quarter of the rate */
		{ 20, 1000, true },
		{ 100, 1000, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settle_batching batching = under_load(1, cases[i].in_flight);

		batching.rate = per_second(cases[i].rate);
		assert_int_equal(settle_batching_is_due(&batching, NOW), cases[i].due);
	}
}

static void a_verdict_that_somebody_waits_for_waits_only_at_full_speed(void **state)
{
	struct settle_batching batching = under_load(1, 100);

	(void)state;
	batching.prompt = true;
	assert_false(settle_batching_is_due(&batching, NOW));
	batching.rate = per_second(1000);
	assert_true(settle_batching_is_due(&batching, NOW));
	batching.in_flight = 1000;
	assert_false(settle_batching_is_due(&batching, NOW));
	batching.in_flight = 100;
	batching.prompt = false;
	assert_false(settle_batching_is_due(&batching, NOW));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_few_deliveries_half_of_them_is_enough),
		cmocka_unit_test(under_load_verdicts_wait_longer),
		cmocka_unit_test(a_thousand_verdicts_are_enough),
		cmocka_unit_test(ready_messages_count_as_expected_verdicts),
		cmocka_unit_test(half_of_what_may_be_in_flight_is_enough),
		cmocka_unit_test(with_messages_held_up_the_wait_is_not_extended),
		cmocka_unit_test(
			half_of_the_deliveries_is_enough_when_half_of_the_verdicts_stop_their_lanes),
		cmocka_unit_test(messages_behind_others_count_as_expected_verdicts),
		cmocka_unit_test(an_urgent_verdict_does_not_wait),
		cmocka_unit_test(a_verdict_does_not_wait_for_others_that_do_not_come),
		cmocka_unit_test(a_verdict_that_somebody_waits_for_waits_only_at_full_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
