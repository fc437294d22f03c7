/* Which heartbeats count: the lease is one from their sending. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lease/lease_clock.h"

#define LEASE_MS 15000
#define BEGIN_MS 1000000

static struct lease_clock fresh(void)
{
	return (struct lease_clock){ .lease_ms = LEASE_MS };
}

/* Sent every interval, each answered after took_ms. Returns when the next one is to be sent. */
static int64_t beat_on(struct lease_clock *beats, int64_t at_ms, int count, int64_t took_ms)
{
	for (int i = 0; i < count; i++, at_ms += LEASE_MS / 3)
		assert_int_equal(lease_clock_answered(beats, at_ms, at_ms + took_ms), 0);
	return at_ms;
}

static void the_lease_counts_from_the_sending(void **state)
{
	struct lease_clock beats = fresh();

	(void)state;
	assert_int_equal(lease_clock_answered(&beats, BEGIN_MS, BEGIN_MS + 9000), 0);
	assert_int_equal(beats.sent_ms, BEGIN_MS);
}

static void an_answer_after_the_lease_is_no_heartbeat(void **state)
{
	struct lease_clock beats = fresh();

	(void)state;
	assert_int_equal(lease_clock_answered(&beats, BEGIN_MS, BEGIN_MS + 10), 0);
	assert_int_equal(lease_clock_answered(&beats, BEGIN_MS + 5000, BEGIN_MS + 5000 + LEASE_MS),
		HEARTBEAT_TOO_LATE);
	assert_int_equal(beats.sent_ms, BEGIN_MS);
}

static void an_instance_on_time_for_a_whole_lease_is_steady(void **state)
{
	struct lease_clock beats = fresh();
	int64_t at_ms = beat_on(&beats, BEGIN_MS, 3, 10);

	(void)state;
	assert_false(lease_clock_is_steady(&beats));
	(void)beat_on(&beats, at_ms, 1, 10);
	assert_true(lease_clock_is_steady(&beats));
}

/* Sent in time, and answered when the database goes on: meanwhile nobody else's could be noted either. */
static void a_heartbeat_with_a_late_answer_is_not_on_time(void **state)
{
	struct lease_clock beats = fresh();
	int64_t at_ms = beat_on(&beats, BEGIN_MS, 8, 10);

	(void)state;
	assert_int_equal(lease_clock_answered(&beats, at_ms, at_ms + 5000), 0);
	assert_false(lease_clock_is_steady(&beats));
	(void)beat_on(&beats, at_ms + 5000, 2, 10);
	assert_false(lease_clock_is_steady(&beats));
}

static void the_next_heartbeat_is_due_an_interval_after_the_sending(void **state)
{
	struct lease_clock beats = fresh();

	(void)state;
	assert_int_equal(lease_clock_answered(&beats, BEGIN_MS, BEGIN_MS + 3000), 0);
	assert_int_equal(lease_clock_rest_ms(&beats, BEGIN_MS + 3000), 2000);
	assert_int_equal(lease_clock_rest_ms(&beats, BEGIN_MS + 5000), 0);
	assert_int_equal(lease_clock_rest_ms(&beats, BEGIN_MS + 9000), 0);
}

static void the_next_try_begins_an_interval_after_the_last_one_at_the_latest(void **state)
{
	struct lease_clock beats = fresh();

	(void)state;
	assert_int_equal(lease_clock_retry_ms(&beats, BEGIN_MS, BEGIN_MS + 100, 4000), 4000);
	assert_int_equal(lease_clock_retry_ms(&beats, BEGIN_MS, BEGIN_MS + 3000, 4000), 2000);
	assert_int_equal(lease_clock_retry_ms(&beats, BEGIN_MS, BEGIN_MS + 7000, 4000), 0);
}

static void a_missed_heartbeat_is_not_on_time(void **state)
{
	struct lease_clock beats = fresh();
	int64_t at_ms = beat_on(&beats, BEGIN_MS, 8, 10);

	(void)state;
	assert_int_equal(lease_clock_answered(&beats, at_ms + 5000, at_ms + 5010), 0);
	assert_false(lease_clock_is_steady(&beats));
}

static void after_a_fault_steadiness_starts_over(void **state)
{
	struct lease_clock beats = fresh();
	int64_t at_ms = beat_on(&beats, BEGIN_MS, 8, 10);

	(void)state;
	assert_true(lease_clock_is_steady(&beats));
	lease_clock_break(&beats);
	at_ms = beat_on(&beats, at_ms, 3, 10);
	assert_false(lease_clock_is_steady(&beats));
	(void)beat_on(&beats, at_ms, 1, 10);
	assert_true(lease_clock_is_steady(&beats));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lease_counts_from_the_sending),
		cmocka_unit_test(an_answer_after_the_lease_is_no_heartbeat),
		cmocka_unit_test(an_instance_on_time_for_a_whole_lease_is_steady),
		cmocka_unit_test(a_heartbeat_with_a_late_answer_is_not_on_time),
		cmocka_unit_test(the_next_heartbeat_is_due_an_interval_after_the_sending),
		cmocka_unit_test(the_next_try_begins_an_interval_after_the_last_one_at_the_latest),
		cmocka_unit_test(a_missed_heartbeat_is_not_on_time),
		cmocka_unit_test(after_a_fault_steadiness_starts_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
