/* Which lines an outage gets in the log. The clock is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/outage_log.h"

#define START  1000000
#define MINUTE ((int64_t)60000)

enum { LOST, BUSY };

/* How many lines an attempt each 100 ms has in this time, from START on. */
static int lines(struct outage_log *log, bool quietly, int64_t ms)
{
	int count = 0;

	for (int64_t at = 0; at < ms; at += 100)
		count += quietly ? outage_log_failed_quietly(log, LOST, START + at)
				 : outage_log_failed(log, LOST, START + at);
	return count;
}

static void an_outage_of_three_minutes_has_a_line_a_minute(void **state)
{
	struct outage_log log = { .failures = 0 };
	struct outage_log ended;

	(void)state;
	assert_int_equal(lines(&log, false, MINUTE), 1);
	log = (struct outage_log){ .failures = 0 };
	assert_int_equal(lines(&log, false, 3 * MINUTE), 3);
	assert_int_equal(log.failures, 1800);
	assert_int_equal(log.since_ms, START);
	assert_true(outage_log_ended(&log, &ended));
	assert_int_equal(ended.failures, 1800);
	assert_int_equal(ended.since_ms, START);
}

static void a_quiet_outage_has_no_line_in_its_first_minute(void **state)
{
	struct outage_log log = { .failures = 0 };
	struct outage_log ended;

	(void)state;
	assert_int_equal(lines(&log, true, MINUTE), 0);
	assert_false(outage_log_ended(&log, &ended));
	assert_int_equal(lines(&log, true, 3 * MINUTE), 2);
	assert_true(outage_log_ended(&log, &ended));
}

static void a_failure_of_another_kind_has_its_own_line_once(void **state)
{
	struct outage_log log = { .failures = 0 };

	(void)state;
	assert_true(outage_log_failed(&log, LOST, START));
	assert_true(outage_log_failed(&log, BUSY, START + 1));
	assert_false(outage_log_failed(&log, LOST, START + 2));
	assert_false(outage_log_failed(&log, BUSY, START + 3));
	assert_int_equal(log.failures, 4);
}

static void the_next_outage_begins_with_a_line(void **state)
{
	struct outage_log log = { .failures = 0 };
	struct outage_log ended;

	(void)state;
	assert_false(outage_log_ended(&log, &ended));
	assert_true(outage_log_failed(&log, LOST, START));
	assert_true(outage_log_ended(&log, &ended));
	assert_false(outage_log_ended(&log, &ended));
	assert_true(outage_log_failed(&log, LOST, START + OUTAGE_BEAT_MS));
	assert_int_equal(log.failures, 1);
	assert_int_equal(log.since_ms, START + OUTAGE_BEAT_MS);
}

/* Each failure is followed by a success, which would end the outage. */
static void failures_between_successes_have_a_line_a_minute(void **state)
{
	struct outage_log log = { .failures = 0 };
	struct outage_log ended;
	int failed = 0;
	int back = 0;

	(void)state;
	for (int64_t at = 0; at < 3 * MINUTE; at += 1500) {
		failed += outage_log_failed(&log, LOST, START + at);
		back += outage_log_ended(&log, &ended);
	}
	assert_int_equal(failed, 3);
	assert_int_equal(back, 3);
	assert_true(outage_log_failed(&log, BUSY, START + 3 * MINUTE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_outage_of_three_minutes_has_a_line_a_minute),
		cmocka_unit_test(a_quiet_outage_has_no_line_in_its_first_minute),
		cmocka_unit_test(a_failure_of_another_kind_has_its_own_line_once),
		cmocka_unit_test(the_next_outage_begins_with_a_line),
		cmocka_unit_test(failures_between_successes_have_a_line_a_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
