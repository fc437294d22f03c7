/* A batch owns its messages until they are given away, and can drop a partition completely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "model/message/batch.h"
#include "model/message/handover.h"

static struct message *a_message(const char *topic, int32_t partition, int64_t offset)
{
	const struct message from = { .topic = topic,
		.partition = partition,
		.offset = offset,
		.payload = { "payload", 7 } };
	struct message *message = NULL;

	assert_int_equal(message_new(&message, &from, NULL), 0);
	return message;
}

static int emptied(void **state)
{
	batch_fini(*state);
	return 0;
}

static int made(void **state)
{
	static struct batch batch = BATCH_INIT;

	*state = &batch;
	return 0;
}

static void rows_keep_their_order(void **state)
{
	struct batch *batch = *state;

	for (int64_t i = 0; i < 1000; i++)
		assert_int_equal(batch_add(batch, a_message("t", 0, i), 3, NULL), 0);
	assert_int_equal(batch->row_count, 1000);
	for (size_t i = 0; i < batch->row_count; i++) {
		assert_int_equal(batch->rows[i].message->offset, (int64_t)i);
		assert_int_equal(batch->rows[i].stream, 3);
		assert_int_equal(batch->rows[i].result, ROW_UNKNOWN);
	}
}

static void the_size_of_a_batch_counts_messages_and_rejects(void **state)
{
	struct batch *batch = *state;
	struct message *message = a_message("t", 0, 1);
	struct message *reject = a_message("t", 0, 2);
	size_t bytes = message->bytes + reject->bytes;

	assert_int_equal(batch_add(batch, message, 0, NULL), 0);
	assert_int_equal(batch_reject(batch, reject, "label: words", NULL), 0);
	assert_int_equal(batch->bytes, bytes);
	batch_clear(batch);
	assert_int_equal(batch->bytes, 0);
	assert_int_equal(batch->row_count + batch->reject_count, 0);
}

static void a_reason_that_is_too_long_is_cut(void **state)
{
	struct batch *batch = *state;
	char reason[2000];

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	assert_int_equal(batch_reject(batch, a_message("t", 0, 2), reason, NULL), 0);
	assert_int_equal(strlen(batch->rejects[0].reason), sizeof(batch->rejects[0].reason) - 1);
}

static void a_partition_has_one_watermark_update(void **state)
{
	struct batch *batch = *state;

	watermark_update(batch, "t", 1)->next = 10;
	watermark_update(batch, "t", 2)->next = 20;
	watermark_update(batch, "u", 1)->next = 30;
	assert_int_equal(watermark_update(batch, "t", 1)->next, 10);
	assert_int_equal(watermark_update(batch, "u", 1)->next, 30);
	assert_int_equal(batch->update_count, 3);
}

static void dropping_a_partition_does_not_change_others(void **state)
{
	struct batch *batch = *state;
	size_t kept;

	assert_int_equal(batch_add(batch, a_message("t", 1, 1), 0, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 2, 2), 1, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("u", 1, 3), 2, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 1, 4), 0, NULL), 0);
	assert_int_equal(batch_reject(batch, a_message("t", 1, 5), "bad", NULL), 0);
	assert_int_equal(batch_reject(batch, a_message("t", 2, 6), "bad", NULL), 0);
	(void)watermark_update(batch, "t", 1);
	(void)watermark_update(batch, "t", 2);
	kept = batch->rows[1].message->bytes + batch->rows[2].message->bytes +
	       batch->rejects[1].message->bytes;

	batch_drop_partition(batch, "t", 1);

	assert_int_equal(batch->row_count, 2);
	assert_int_equal(batch->rows[0].message->offset, 2);
	assert_int_equal(batch->rows[1].message->offset, 3);
	assert_int_equal(batch->reject_count, 1);
	assert_int_equal(batch->rejects[0].message->offset, 6);
	assert_int_equal(batch->update_count, 1);
	assert_int_equal(batch->updates[0].partition, 2);
	assert_int_equal(batch->bytes, kept);
}

static void fill_two_partitions(struct batch *batch)
{
	assert_int_equal(batch_add(batch, a_message("t", 0, 10), 0, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 1, 50), 1, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 0, 12), 0, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 1, 51), 1, NULL), 0);
	assert_int_equal(batch_reject(batch, a_message("t", 0, 11), "bad", NULL), 0);
	assert_int_equal(batch_reject(batch, a_message("t", 0, 13), "bad", NULL), 0);
}

static void after_a_split_the_rest_starts_where_the_first_part_ends(void **state)
{
	struct batch *batch = *state;
	struct batch rest = BATCH_INIT;

	fill_two_partitions(batch);
	assert_int_equal(batch_split(batch, 2, &rest, NULL), 0);
	assert_int_equal(batch->row_count, 2);
	assert_int_equal(batch->reject_count, 1);
	assert_int_equal(batch->rejects[0].message->offset, 11);
	assert_int_equal(rest.row_count, 2);
	assert_int_equal(rest.rejects[0].message->offset, 13);
	assert_int_equal(batch_cut(&rest, "t", 0), 12);
	assert_int_equal(batch_cut(&rest, "t", 1), 51);
	assert_int_equal(batch_cut(&rest, "u", 0), -1);
	batch_fini(&rest);
}

static void the_rows_of_a_record_stay_together(void **state)
{
	struct batch *batch = *state;
	struct batch rest = BATCH_INIT;

	assert_int_equal(batch_add(batch, a_message("t", 0, 10), 0, NULL), 0);
	assert_int_equal(batch_add_again(batch, a_message("t", 0, 10), 1, NULL), 0);
	assert_int_equal(batch_add_again(batch, a_message("t", 0, 10), 2, NULL), 0);
	assert_int_equal(batch_add(batch, a_message("t", 0, 11), 0, NULL), 0);
	assert_int_equal(batch_split(batch, 1, &rest, NULL), 0);
	assert_int_equal(batch->row_count, 3);
	assert_int_equal(rest.row_count, 1);
	assert_int_equal(batch_cut(&rest, "t", 0), 11);
	batch_fini(&rest);
	assert_int_equal(batch_split(batch, 1, &rest, NULL), 0);
	assert_int_equal(batch->row_count, 3);
	assert_int_equal(rest.row_count, 0);
	batch_fini(&rest);
}

static void the_parts_of_a_split_batch_can_be_joined(void **state)
{
	struct batch *batch = *state;
	struct batch rest = BATCH_INIT;
	size_t bytes;

	fill_two_partitions(batch);
	bytes = batch->bytes;
	assert_int_equal(batch_split(batch, 9, &rest, NULL), 0);
	assert_int_equal(rest.row_count + rest.reject_count, 0);
	assert_int_equal(batch_split(batch, 1, &rest, NULL), 0);
	assert_int_equal(batch->row_count, 1);
	assert_int_equal(batch->bytes + rest.bytes, bytes);
	assert_int_equal(batch_join(batch, &rest, NULL), 0);
	assert_int_equal(batch->row_count, 4);
	assert_int_equal(batch->reject_count, 2);
	assert_int_equal(batch->rows[0].message->offset, 10);
	assert_int_equal(batch->rows[2].message->offset, 12);
	assert_int_equal(batch->bytes, bytes);
	assert_int_equal(rest.row_count + rest.reject_count + rest.bytes, 0);
	batch_fini(&rest);
}

static void a_partition_is_dropped_up_to_its_stored_offset(void **state)
{
	struct batch *batch = *state;

	fill_two_partitions(batch);
	batch_drop_below(batch, "t", 0, 12);
	assert_int_equal(batch->row_count, 3);
	assert_int_equal(batch->rows[1].message->offset, 12);
	assert_int_equal(batch->reject_count, 1);
	assert_int_equal(batch->rejects[0].message->offset, 13);
}

static void without_memory_a_batch_is_not_split(void **state)
{
	struct batch *batch = *state;
	struct batch rest = BATCH_INIT;

	fill_two_partitions(batch);
	for (size_t n = 1;; n++) {
		struct err err = ERR_INIT;
		int r;

		alloc_fail_at(n);
		r = batch_split(batch, 1, &rest, &err);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_int_equal(batch->row_count, 4);
		assert_int_equal(batch->reject_count, 2);
		batch_fini(&rest);
	}
	batch_fini(&rest);
}

static void a_message_that_was_given_away_is_not_freed(void **state)
{
	struct batch *batch = *state;
	struct message *message = a_message("t", 0, 1);

	assert_int_equal(batch_add(batch, message, 0, NULL), 0);
	batch->rows[0].message = NULL;
	batch_clear(batch);
	message_free(message);
}

static void without_memory_the_message_is_freed_and_the_batch_is_unchanged(void **state)
{
	struct batch *batch = *state;
	struct message *message = a_message("t", 0, 1);
	struct message *reject = a_message("t", 0, 2);
	struct err err = ERR_INIT;

	alloc_fail_at(1);
	assert_int_equal(batch_add(batch, message, 0, &err), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	alloc_fail_at(1);
	assert_int_equal(batch_reject(batch, reject, "bad", &err), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	alloc_fail_at(1);
	assert_null(watermark_update(batch, "t", 0));
	assert_true(alloc_fail_never());
	assert_int_equal(batch->row_count + batch->reject_count + batch->update_count, 0);
	assert_int_equal(batch->bytes, 0);
}

static void a_failed_handover_leaks_nothing(void **state)
{
	struct handover *handover = NULL;

	(void)state;
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = handover_new(&handover, &(struct handover_room){ 3, 2, 1, 1, 1 }, NULL);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_null(handover);
	}
	handover->items[handover->count++].message = a_message("t", 0, 1);
	handover_free(handover);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_keep_their_order, made, emptied),
		cmocka_unit_test_setup_teardown(the_rows_of_a_record_stay_together, made, emptied),
		cmocka_unit_test_setup_teardown(
			the_size_of_a_batch_counts_messages_and_rejects, made, emptied),
		cmocka_unit_test_setup_teardown(a_reason_that_is_too_long_is_cut, made, emptied),
		cmocka_unit_test_setup_teardown(
			a_partition_has_one_watermark_update, made, emptied),
		cmocka_unit_test_setup_teardown(
			dropping_a_partition_does_not_change_others, made, emptied),
		cmocka_unit_test_setup_teardown(
			after_a_split_the_rest_starts_where_the_first_part_ends, made, emptied),
		cmocka_unit_test_setup_teardown(
			the_parts_of_a_split_batch_can_be_joined, made, emptied),
		cmocka_unit_test_setup_teardown(
			a_partition_is_dropped_up_to_its_stored_offset, made, emptied),
		cmocka_unit_test_setup_teardown(without_memory_a_batch_is_not_split, made, emptied),
		cmocka_unit_test_setup_teardown(
			a_message_that_was_given_away_is_not_freed, made, emptied),
		cmocka_unit_test_setup_teardown(
			without_memory_the_message_is_freed_and_the_batch_is_unchanged, made,
			emptied),
		cmocka_unit_test(a_failed_handover_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
