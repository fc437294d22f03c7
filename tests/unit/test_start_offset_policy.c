/* Where to start reading: the lower of two offsets, and nothing outside the log in silence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ingest/partitions/start_offset_policy.h"

/* A log from 100 to 200, read up to 150 by both sides. */
#define A_LOG                                                                                      \
	.low = 100, .high = 200, .watermark = 150, .group = 150, .last_offset = 149,               \
	.last_timestamp = 7000

static struct start_offset decided(struct start_offset_facts facts)
{
	struct start_offset position;

	assert_int_equal(start_offset_decide(&facts, &position), 0);
	return position;
}

static void if_both_agree_reading_starts_at_the_last_record_to_verify_it(void **state)
{
	struct start_offset position = decided((struct start_offset_facts){ A_LOG });

	(void)state;
	assert_int_equal(position.start, 150);
	assert_int_equal(position.seek, 149);
	assert_true(position.verify);
	assert_false(position.recreated || position.gap);
}

static void a_lower_group_offset_wins(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.group = 120;
	position = decided(facts);
	assert_int_equal(position.start, 120);
	assert_int_equal(position.seek, 120);
	assert_true(position.verify); /* when the record passes */
}

static void a_lower_watermark_wins(void **state)
{
	struct start_offset_facts facts = { A_LOG };

	(void)state;
	facts.group = 180;
	assert_int_equal(decided(facts).start, 150);
}

static void without_a_watermark_the_group_offset_decides(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.watermark = -1;
	facts.last_offset = -1;
	facts.group = 130;
	position = decided(facts);
	assert_int_equal(position.start, 130);
	assert_false(position.verify);
}

static void without_a_group_offset_the_watermark_decides(void **state)
{
	struct start_offset_facts facts = { A_LOG };

	(void)state;
	facts.group = -1;
	assert_int_equal(decided(facts).start, 150);
}

static void a_watermark_moved_by_an_operator_decides_alone_and_verifies_nothing(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.watermark = 170;
	facts.watermark_only = true;
	position = decided(facts);
	assert_int_equal(position.start, 170);
	assert_int_equal(position.seek, 170);
	assert_false(position.verify);
}

static void without_any_offset_the_reset_policy_decides(void **state)
{
	struct start_offset_facts facts = { A_LOG };

	(void)state;
	facts.watermark = -1;
	facts.group = -1;
	facts.reset = RESET_EARLIEST;
	assert_int_equal(decided(facts).start, 100);
	facts.reset = RESET_LATEST;
	assert_int_equal(decided(facts).start, 200);
}

static void without_any_offset_the_reset_policy_can_refuse(void **state)
{
	struct start_offset_facts facts = { .low = 0, .high = 5, .watermark = -1, .group = -1 };
	struct start_offset position;

	(void)state;
	facts.reset = RESET_REFUSE;
	assert_int_equal(start_offset_decide(&facts, &position), START_OFFSET_REFUSED);
}

static void with_an_offset_the_reset_policy_is_not_used(void **state)
{
	struct start_offset_facts facts = { A_LOG };

	(void)state;
	facts.reset = RESET_REFUSE;
	assert_int_equal(decided(facts).start, 150);
}

static void a_watermark_after_the_end_means_a_recreated_topic(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.high = 149;
	position = decided(facts);
	assert_true(position.recreated);
	assert_int_equal(position.start, 100);
	assert_int_equal(position.seek, 100);
	assert_false(position.verify || position.gap);
}

static void a_group_offset_after_the_end_without_watermark_means_a_recreated_topic(void **state)
{
	struct start_offset_facts facts = { .low = 3, .high = 9, .watermark = -1, .group = 10 };
	struct start_offset position = decided(facts);

	(void)state;
	assert_true(position.recreated);
	assert_int_equal(position.start, 3);
}

static void a_group_offset_after_the_end_is_ignored_if_the_watermark_is_inside(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.group = 999;
	position = decided(facts);
	assert_int_equal(position.start, 150);
	assert_false(position.recreated);
}

static void a_watermark_at_the_end_is_inside(void **state)
{
	struct start_offset_facts facts = { A_LOG };

	(void)state;
	facts.high = 150;
	assert_false(decided(facts).recreated);
}

static void another_record_at_the_last_offset_means_a_recreated_topic(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.recreated = true;
	position = decided(facts);
	assert_true(position.recreated);
	assert_int_equal(position.start, 100);
}

static void a_watermark_before_the_log_is_a_gap(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.low = 160;
	position = decided(facts);
	assert_true(position.gap);
	assert_int_equal(position.gap_from, 150);
	assert_int_equal(position.start, 160);
	assert_false(position.verify); /* the last record is gone as well */
}

static void a_group_offset_before_the_log_is_no_gap_if_the_watermark_is_inside(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.group = 50;
	position = decided(facts);
	assert_false(position.gap);
	assert_int_equal(position.start, 100);
}

static void a_record_without_timestamp_cannot_be_verified(void **state)
{
	struct start_offset_facts facts = { A_LOG };
	struct start_offset position;

	(void)state;
	facts.last_timestamp = -1;
	position = decided(facts);
	assert_false(position.verify);
	assert_int_equal(position.seek, 150);
}

static void the_reset_policy_has_the_names_of_librdkafka(void **state)
{
	(void)state;
	assert_int_equal(start_offset_policy(""), RESET_EARLIEST);
	assert_int_equal(start_offset_policy("smallest"), RESET_EARLIEST);
	assert_int_equal(start_offset_policy("beginning"), RESET_EARLIEST);
	assert_int_equal(start_offset_policy("latest"), RESET_LATEST);
	assert_int_equal(start_offset_policy("largest"), RESET_LATEST);
	assert_int_equal(start_offset_policy("end"), RESET_LATEST);
	assert_int_equal(start_offset_policy("error"), RESET_REFUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(if_both_agree_reading_starts_at_the_last_record_to_verify_it),
		cmocka_unit_test(a_lower_group_offset_wins),
		cmocka_unit_test(a_lower_watermark_wins),
		cmocka_unit_test(without_a_watermark_the_group_offset_decides),
		cmocka_unit_test(without_a_group_offset_the_watermark_decides),
		cmocka_unit_test(
			a_watermark_moved_by_an_operator_decides_alone_and_verifies_nothing),
		cmocka_unit_test(without_any_offset_the_reset_policy_decides),
		cmocka_unit_test(without_any_offset_the_reset_policy_can_refuse),
		cmocka_unit_test(with_an_offset_the_reset_policy_is_not_used),
		cmocka_unit_test(a_watermark_after_the_end_means_a_recreated_topic),
		cmocka_unit_test(
			a_group_offset_after_the_end_without_watermark_means_a_recreated_topic),
		cmocka_unit_test(
			a_group_offset_after_the_end_is_ignored_if_the_watermark_is_inside),
		cmocka_unit_test(a_watermark_at_the_end_is_inside),
		cmocka_unit_test(another_record_at_the_last_offset_means_a_recreated_topic),
		cmocka_unit_test(a_watermark_before_the_log_is_a_gap),
		cmocka_unit_test(
			a_group_offset_before_the_log_is_no_gap_if_the_watermark_is_inside),
		cmocka_unit_test(a_record_without_timestamp_cannot_be_verified),
		cmocka_unit_test(the_reset_policy_has_the_names_of_librdkafka),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
