/* What words, deadlines and lost connections mean for a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "dispatch/order/retry_policy.h"

static const struct retry_rules rules = {
	.max_attempts = 3,
	.backoff_ms = 1000,
	.backoff_max_ms = 60000,
	.max_crashes = 2,
};

static struct entry an_entry(struct message *message)
{
	message->seq = 7;
	message->delivery_count = 2;
	return (struct entry){ .message = message };
}

static struct verdict a_verdict(enum verdict_status status)
{
	return (struct verdict){ .status = status, .delay_ms = -1 };
}

static void done_uses_the_fast_statement(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_DONE);

	(void)state;
	assert_int_equal(retry_policy_answer(&rules, &entry, &verdict, NULL), 0);
	assert_int_equal(entry.verdict.outcome, SETTLE_PROCESSED);
	assert_true(entry.verdict.plain);
	assert_int_equal(entry.verdict.retry_count, 1);
}

static void done_with_a_result_or_for_a_suspect_uses_the_full_statement(void **state)
{
	struct message message = { 0 };
	struct message suspect = { .suspect = true };
	struct entry entry = an_entry(&message);
	struct entry other = an_entry(&suspect);
	struct verdict verdict = a_verdict(STATUS_DONE);

	(void)state;
	(void)retry_policy_answer(&rules, &other, &verdict, NULL);
	assert_false(other.verdict.plain);
	verdict.result = bytes_of("{\"a\":1}");
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_false(entry.verdict.plain);
	assert_memory_equal(entry.verdict.result.data, "{\"a\":1}", 7);
	retry_policy_clear(&entry);
}

static void events_go_with_done_until_they_are_refused(void **state)
{
	struct message message = { .crash_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_DONE);

	(void)state;
	verdict.emit = bytes_of("[{}]");
	assert_int_equal(retry_policy_answer(&rules, &entry, &verdict, NULL), 0);
	assert_int_equal(entry.verdict.outcome, SETTLE_PROCESSED);
	assert_false(entry.verdict.plain);
	assert_true(bytes_equal(entry.verdict.emit, bytes_of("[{}]")));
	retry_policy_unemitted(&rules, &entry, "no such topic");
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.end, END_RETRY);
	assert_int_equal(entry.verdict.retry_count, 1);
	assert_int_equal(entry.verdict.crash_count, 1);
	assert_string_equal(entry.verdict.error, "no such topic");
	assert_string_equal(entry.verdict.error_code, "EMIT");
	assert_null(entry.verdict.emit.data);
	message.retry_count = 2;
	retry_policy_unemitted(&rules, &entry, "no such topic");
	assert_int_equal(entry.verdict.outcome, SETTLE_DEAD);
	assert_int_equal(entry.end, END_DEAD);
	retry_policy_clear(&entry);
}

static void retry_waits_at_most_the_backoff_and_counts(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_RETRY);

	(void)state;
	for (int i = 0; i < 100; i++) {
		(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
		assert_in_range(entry.verdict.delay_ms, 0, 2000);
	}
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.retry_count, 2);
}

static void retry_with_a_delay_waits_exactly_that_long(void **state)
{
	struct message message = { 0 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_RETRY);

	(void)state;
	verdict.delay_ms = 60000;
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.delay_ms, 60000);
}

static void after_the_last_attempt_a_message_is_dead_with_error_and_code(void **state)
{
	struct message message = { .retry_count = 2 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_RETRY);

	(void)state;
	verdict.reason = bytes_of("upstream 503");
	verdict.code = bytes_of("UPSTREAM");
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.outcome, SETTLE_DEAD);
	assert_int_equal(entry.verdict.retry_count, 3);
	assert_string_equal(entry.verdict.error, "upstream 503");
	assert_string_equal(entry.verdict.error_code, "UPSTREAM");
	assert_int_equal(entry.end, END_DEAD);
	retry_policy_clear(&entry);
}

static void dead_is_a_failed_attempt(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict dead = a_verdict(STATUS_DEAD);

	(void)state;
	(void)retry_policy_answer(&rules, &entry, &dead, NULL);
	assert_int_equal(entry.verdict.outcome, SETTLE_DEAD);
	assert_int_equal(entry.verdict.retry_count, 2);
}

static void a_snooze_spends_no_attempt(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict snooze = a_verdict(STATUS_SNOOZE);

	(void)state;
	snooze.delay_ms = 5000;
	snooze.reason = bytes_of("the service answered 429");
	snooze.code = bytes_of("HTTP_429");
	assert_int_equal(retry_policy_answer(&rules, &entry, &snooze, NULL), 0);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.delay_ms, 5000);
	assert_int_equal(entry.verdict.retry_count, 1);
	assert_string_equal(entry.verdict.error, "the service answered 429");
	assert_string_equal(entry.verdict.error_code, "HTTP_429");
	assert_false(entry.verdict.suspect); /* with an error it would be a crash in the history */
	retry_policy_clear(&entry);
}

static void a_snooze_waits_at_least_a_tenth_of_a_second(void **state)
{
	const struct retry_rules hasty = { .max_attempts = 3, .max_crashes = 2 };
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_SNOOZE);

	(void)state;
	(void)retry_policy_answer(&hasty, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.delay_ms, 100);
	verdict.delay_ms = 0;
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.delay_ms, 100);
	verdict.status = STATUS_RETRY;
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.delay_ms, 0);
}

static void settled_is_a_failure_unless_the_row_is_completed(void **state)
{
	struct message message = { 0 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_SETTLED);

	(void)state;
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_string_equal(entry.verdict.error_code, "NOT_SETTLED");
	retry_policy_clear(&entry);
}

static void a_timeout_spends_an_attempt(void **state)
{
	struct message message = { .retry_count = 2 };
	struct entry entry = an_entry(&message);

	(void)state;
	retry_policy_timeout(&rules, &entry, 30000);
	assert_int_equal(entry.verdict.outcome, SETTLE_DEAD);
	assert_string_equal(entry.verdict.error_code, "TIMEOUT");
	assert_int_equal(entry.verdict.retry_count, 3);
	retry_policy_clear(&entry);
}

static void the_first_lost_connection_makes_a_suspect_and_counts_nothing(void **state)
{
	struct message message = { .retry_count = 1, .crash_count = 0 };
	struct entry entry = an_entry(&message);

	(void)state;
	retry_policy_lost(&rules, &entry);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.delay_ms, 0);
	assert_int_equal(entry.verdict.retry_count, 1);
	assert_int_equal(entry.verdict.crash_count, 0);
	assert_true(entry.verdict.suspect);
}

static void a_suspect_that_crashes_its_handler_again_counts_until_it_is_dead(void **state)
{
	struct message message = { .suspect = true };
	struct entry entry = an_entry(&message);

	(void)state;
	entry.raised = true;
	retry_policy_lost(&rules, &entry);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.crash_count, 1);
	assert_string_equal(entry.verdict.error_code, "CRASH");
	message.crash_count = 1;
	retry_policy_lost(&rules, &entry);
	assert_int_equal(entry.verdict.outcome, SETTLE_DEAD);
	assert_string_equal(entry.verdict.error_code, "CRASH");
	retry_policy_clear(&entry);
}

static void any_answer_undoes_the_raised_crash_count(void **state)
{
	struct message message = { .suspect = true, .crash_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_RETRY);

	(void)state;
	entry.raised = true;
	(void)retry_policy_answer(&rules, &entry, &verdict, NULL);
	assert_int_equal(entry.verdict.crash_count, 1);
	assert_false(entry.verdict.suspect);
}

static void a_timeout_undoes_only_the_raised_count(void **state)
{
	struct message message = { .suspect = true, .crash_count = 1 };
	struct entry entry = an_entry(&message);

	(void)state;
	entry.raised = true;
	retry_policy_timeout(&rules, &entry, 1000);
	assert_int_equal(entry.verdict.crash_count, 1);
	retry_policy_clear(&entry);
}

static void returning_a_message_changes_nothing(void **state)
{
	struct message message = { .retry_count = 1, .crash_count = 1, .suspect = true };
	struct entry entry = an_entry(&message);

	(void)state;
	retry_policy_return(&entry);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.retry_count, 1);
	assert_int_equal(entry.verdict.crash_count, 1);
	assert_true(entry.verdict.suspect);
	assert_null(retry_policy_outcome(entry.end));
}

static void returning_a_message_makes_no_suspect(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);

	(void)state;
	retry_policy_return(&entry);
	assert_false(entry.verdict.suspect);
	retry_policy_park(&entry);
	assert_false(entry.verdict.suspect);
}

static void a_cancelled_call_is_a_timeout_with_the_words_of_postgresql(void **state)
{
	struct message message = { .retry_count = 1 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_TIMEOUT);

	(void)state;
	verdict.delay_ms = -1;
	verdict.reason = bytes_of("canceling statement due to statement timeout");
	verdict.code = bytes_of("TIMEOUT");
	assert_int_equal(retry_policy_answer(&rules, &entry, &verdict, NULL), 0);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.retry_count, 2);
	assert_string_equal(entry.verdict.error, "canceling statement due to statement timeout");
	assert_string_equal(entry.verdict.error_code, "TIMEOUT");
	assert_int_equal(entry.end, END_TIMEOUT);
	retry_policy_clear(&entry);
}

static void a_skipped_message_waits_a_moment_and_nothing_is_counted(void **state)
{
	struct message message = { .retry_count = 1, .crash_count = 1, .suspect = true };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_SKIPPED);

	(void)state;
	verdict.delay_ms = 60000;
	assert_int_equal(retry_policy_answer(&rules, &entry, &verdict, NULL), 0);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.delay_ms, 100);
	assert_int_equal(entry.verdict.retry_count, 1);
	assert_int_equal(entry.verdict.crash_count, 1);
	assert_true(entry.verdict.suspect);
	assert_null(entry.verdict.error);
	assert_int_equal(entry.end, END_RETURNED);
}

static void a_message_behind_one_that_waits_is_parked(void **state)
{
	static const enum verdict_status waits[] = { STATUS_RETRY, STATUS_SNOOZE, STATUS_SKIPPED };
	struct message message = { .retry_count = 1 };
	struct entry first = an_entry(&message);
	struct entry entry = an_entry(&message);

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct verdict verdict = a_verdict(waits[i]);

		(void)retry_policy_answer(&rules, &first, &verdict, NULL);
		retry_policy_follow(&entry, &first);
		assert_int_equal(entry.verdict.outcome, SETTLE_PARKED);
		assert_int_equal(entry.verdict.retry_count, 1);
		assert_int_equal(entry.end, END_RETURNED);
		assert_false(entry.verdict.suspect);
	}
}

static void a_message_behind_one_that_does_not_wait_is_returned(void **state)
{
	struct message last = { .retry_count = 2 };
	struct message message = { 0 };
	struct entry dead = an_entry(&last);
	struct entry returned = an_entry(&message);
	struct entry entry = an_entry(&message);
	struct verdict retry = a_verdict(STATUS_RETRY);

	(void)state;
	(void)retry_policy_answer(&rules, &dead, &retry, NULL);
	assert_int_equal(dead.verdict.outcome, SETTLE_DEAD);
	retry_policy_follow(&entry, &dead);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.delay_ms, 0);
	retry_policy_return(&returned);
	retry_policy_follow(&entry, &returned);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_int_equal(entry.verdict.delay_ms, 0);
	retry_policy_clear(&dead);
}

static void behind_a_timeout_or_a_lost_connection_all_are_suspects(void **state)
{
	struct message last = { .retry_count = 2 };
	struct message message = { 0 };
	struct entry late = an_entry(&message);
	struct entry late_and_dead = an_entry(&last);
	struct entry lost = an_entry(&message);
	struct entry entry = an_entry(&message);

	(void)state;
	retry_policy_timeout(&rules, &late, 5000);
	retry_policy_follow(&entry, &late);
	assert_int_equal(entry.verdict.outcome, SETTLE_PARKED);
	assert_int_equal(entry.verdict.retry_count, 0);
	assert_true(entry.verdict.suspect);
	retry_policy_timeout(&rules, &late_and_dead, 5000);
	retry_policy_follow(&entry, &late_and_dead);
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	assert_true(entry.verdict.suspect);
	retry_policy_lost(&rules, &lost);
	retry_policy_follow(&entry, &lost);
	assert_int_equal(entry.verdict.outcome, SETTLE_PARKED);
	assert_int_equal(entry.verdict.crash_count, 0);
	assert_true(entry.verdict.suspect);
	retry_policy_clear(&late);
	retry_policy_clear(&late_and_dead);
}

static void without_memory_for_texts_the_verdict_is_kept(void **state)
{
	struct message message = { 0 };
	struct entry entry = an_entry(&message);
	struct verdict verdict = a_verdict(STATUS_SETTLED);

	(void)state;
	alloc_fail_at(1);
	assert_int_equal(retry_policy_answer(&rules, &entry, &verdict, NULL), FAULT_MEMORY);
	alloc_fail_never();
	assert_int_equal(entry.verdict.outcome, SETTLE_WAITING);
	retry_policy_clear(&entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(done_uses_the_fast_statement),
		cmocka_unit_test(done_with_a_result_or_for_a_suspect_uses_the_full_statement),
		cmocka_unit_test(events_go_with_done_until_they_are_refused),
		cmocka_unit_test(retry_waits_at_most_the_backoff_and_counts),
		cmocka_unit_test(retry_with_a_delay_waits_exactly_that_long),
		cmocka_unit_test(after_the_last_attempt_a_message_is_dead_with_error_and_code),
		cmocka_unit_test(dead_is_a_failed_attempt),
		cmocka_unit_test(a_snooze_spends_no_attempt),
		cmocka_unit_test(a_snooze_waits_at_least_a_tenth_of_a_second),
		cmocka_unit_test(settled_is_a_failure_unless_the_row_is_completed),
		cmocka_unit_test(a_timeout_spends_an_attempt),
		cmocka_unit_test(a_cancelled_call_is_a_timeout_with_the_words_of_postgresql),
		cmocka_unit_test(the_first_lost_connection_makes_a_suspect_and_counts_nothing),
		cmocka_unit_test(a_suspect_that_crashes_its_handler_again_counts_until_it_is_dead),
		cmocka_unit_test(any_answer_undoes_the_raised_crash_count),
		cmocka_unit_test(a_timeout_undoes_only_the_raised_count),
		cmocka_unit_test(returning_a_message_changes_nothing),
		cmocka_unit_test(returning_a_message_makes_no_suspect),
		cmocka_unit_test(a_skipped_message_waits_a_moment_and_nothing_is_counted),
		cmocka_unit_test(a_message_behind_one_that_waits_is_parked),
		cmocka_unit_test(a_message_behind_one_that_does_not_wait_is_returned),
		cmocka_unit_test(behind_a_timeout_or_a_lost_connection_all_are_suspects),
		cmocka_unit_test(without_memory_for_texts_the_verdict_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
