/* Admission: the budget, the placement of messages, and partitions that are clean while no row of them waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "base/time/clock.h"
#include "model/admission/admission.h"
#include "model/admission/lane_set.h"

#define LONG_MS 20000
#define MANY    64

static struct admission *an_admission(enum ordering ordering, int64_t claimed, int64_t bytes)
{
	const struct admission_limits limits = { ordering, claimed, bytes };
	struct admission *admission = NULL;

	assert_int_equal(admission_new(&admission, &limits, NULL), 0);
	return admission;
}

/* Somebody wants everything of type "wanted". */
static void want(struct admission *admission)
{
	const struct subscription subscription = { NULL, "wanted" };
	struct routing *routing = NULL;

	assert_int_equal(routing_new(&routing, NULL), 0);
	assert_int_equal(
		routing_set(routing, (struct handler_id){ "", "handler" }, &subscription, 1, NULL),
		0);
	admission_set_routing(admission, routing);
}

static struct admission *an_open_admission(enum ordering ordering, int64_t claimed)
{
	struct admission *admission = an_admission(ordering, claimed, 1 << 20);

	want(admission);
	return admission;
}

static struct message message_of(uint64_t key_hash, const char *type)
{
	return (struct message){
		.topic = "orders",
		.type = type,
		.key = { key_hash == 0 ? NULL : "key", key_hash == 0 ? 0 : 3 },
		.key_hash = key_hash,
		.bytes = 100,
	};
}

/* Places messages of one partition. */
static void place(struct admission *admission, size_t index, struct message *messages, size_t count,
	struct placement *out)
{
	struct message *list[MANY];
	size_t indexes[MANY];

	for (size_t i = 0; i < count; i++) {
		list[i] = &messages[i];
		indexes[i] = index;
	}
	admission_place(admission, list, indexes, count, out);
}

static struct placement place_one(
	struct admission *admission, size_t index, uint64_t key, const char *type)
{
	struct message message = message_of(key, type);
	struct placement placement;

	place(admission, index, &message, 1, &placement);
	return placement;
}

static size_t index_of(struct admission *admission, const char *topic, int32_t partition)
{
	int index = admission_stream(admission, topic, partition, 0, NULL);

	assert_true(index >= 0);
	return (size_t)index;
}

/* --- Partitions ------------------------------------------------------------------------------ */

static void a_partition_keeps_its_index(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	char topic[16];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(topic, sizeof(topic), "t%d", i % 100);
		assert_int_equal(index_of(admission, topic, i / 100), i);
	}
	assert_int_equal(admission_count(admission), 2000);
	assert_int_equal(index_of(admission, "t7", 3), 307);
	assert_string_equal(admission_get(admission, 307).topic, "t7");
	assert_int_equal(admission_get(admission, 307).partition, 3);
	admission_free(admission);
}

static void an_assigned_partition_is_dirty_when_rows_of_it_wait(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	assert_false(admission_get(admission, index).assigned);
	admission_assign(admission, index, true);
	assert_true(admission_get(admission, index).assigned);
	assert_true(admission_get(admission, index).dirty);
	admission_revoke(admission, index);
	assert_false(admission_get(admission, index).assigned);
	admission_assign(admission, index, false);
	assert_false(admission_get(admission, index).dirty);
	admission_free(admission);
}

/* Dispatch learns of the acquisition after ingest may have placed the next batch. */
static void an_overflow_outlasts_the_assignment_that_dispatch_notes_later(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 0);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_WAITING);
	admission_assign(admission, index, true);
	assert_true(admission_get(admission, index).overflow);
	admission_revoke(admission, index);
	assert_false(admission_get(admission, index).overflow);
	admission_free(admission);
}

static void a_partition_is_clean_only_if_its_version_did_not_change(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	size_t index = index_of(admission, "orders", 0);
	uint64_t before = admission_get(admission, index).version;

	(void)state;
	admission_dirty(admission, index);
	admission_clean(admission, index, before);
	assert_true(admission_get(admission, index).dirty);
	admission_clean(admission, index, admission_get(admission, index).version);
	assert_false(admission_get(admission, index).dirty);
	admission_free(admission);
}

/* --- Places ---------------------------------------------------------------------------------- */

static void in_a_clean_partition_no_message_is_checked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	struct placement placement =
		place_one(admission, index_of(admission, "orders", 0), 1, "wanted");

	(void)state;
	assert_int_equal(placement.kind, PLACEMENT_CLAIMED);
	assert_false(placement.asks);
	admission_free(admission);
}

static void in_a_dirty_partition_messages_with_a_key_are_checked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	admission_dirty(admission, index);
	assert_true(place_one(admission, index, 1, "wanted").asks);
	assert_false(place_one(admission, index, 0, "wanted").asks);
	admission_free(admission);
}

static void with_partition_order_every_message_is_checked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_PARTITION, 10);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	admission_dirty(admission, index);
	assert_true(place_one(admission, index, 0, "wanted").asks);
	admission_free(admission);
}

static void without_order_no_message_is_checked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_NONE, 10);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	admission_dirty(admission, index);
	assert_false(place_one(admission, index, 1, "wanted").asks);
	admission_free(admission);
}

static void a_message_without_handler_is_parked_and_takes_no_budget(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	assert_int_equal(place_one(admission, index, 1, "other").kind, PLACEMENT_PARKED);
	assert_int_equal(admission_pending(admission), 1);
	assert_true(admission_wait(admission, 10, 1000, 0));
	admission_free(admission);
}

static void before_the_first_handler_everything_is_parked(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_PARKED);
	want(admission);
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_CLAIMED);
	admission_free(admission);
}

static void in_one_batch_messages_behind_a_parked_key_are_parked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	struct message messages[] = { message_of(1, "wanted"), message_of(2, "other"),
		message_of(2, "wanted"), message_of(1, "wanted"), message_of(0, "other"),
		message_of(0, "wanted") };
	const enum placement_kind expected[] = { PLACEMENT_CLAIMED, PLACEMENT_PARKED,
		PLACEMENT_PARKED, PLACEMENT_CLAIMED, PLACEMENT_PARKED, PLACEMENT_CLAIMED };
	struct placement out[6];

	(void)state;
	place(admission, index_of(admission, "orders", 0), messages, 6, out);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(out[i].kind, expected[i]);
	admission_free(admission);
}

static void the_next_batch_does_not_remember_parked_keys(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	(void)place_one(admission, index, 1, "other");
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_CLAIMED);
	admission_free(admission);
}

static void with_partition_order_all_messages_behind_a_parked_one_are_parked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_PARTITION, 10);
	struct message messages[] = { message_of(0, "other"), message_of(5, "wanted") };
	struct placement out[2];

	(void)state;
	place(admission, index_of(admission, "orders", 0), messages, 2, out);
	assert_int_equal(out[1].kind, PLACEMENT_PARKED);
	assert_int_equal(place_one(admission, index_of(admission, "orders", 1), 5, "wanted").kind,
		PLACEMENT_CLAIMED);
	admission_free(admission);
}

static void without_memory_for_parked_keys_all_ordered_messages_are_parked(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	struct message messages[] = { message_of(1, "other"), message_of(2, "wanted"),
		message_of(0, "wanted") };
	struct placement out[3];
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	alloc_fail_at(1);
	place(admission, index, messages, 3, out);
	assert_true(alloc_fail_never());
	assert_int_equal(out[1].kind, PLACEMENT_PARKED);
	assert_int_equal(out[2].kind, PLACEMENT_CLAIMED);
	admission_free(admission);
}

/* --- Room ------------------------------------------------------------------------------------ */

static void without_budget_the_partition_overflows_from_that_message_on(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 2);
	size_t index = index_of(admission, "orders", 0);
	struct message messages[] = { message_of(1, "wanted"), message_of(2, "wanted"),
		message_of(3, "wanted") };
	struct placement out[3];

	(void)state;
	place(admission, index, messages, 3, out);
	assert_int_equal(out[1].kind, PLACEMENT_CLAIMED);
	assert_int_equal(out[2].kind, PLACEMENT_WAITING);
	assert_true(admission_get(admission, index).overflow);
	admission_release(admission, 2, 200);
	assert_int_equal(place_one(admission, index, 9, "wanted").kind, PLACEMENT_WAITING);
	assert_int_equal(place_one(admission, index_of(admission, "orders", 1), 9, "wanted").kind,
		PLACEMENT_CLAIMED);
	admission_free(admission);
}

static void an_overflow_ends_when_the_table_was_claimed_empty_since(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 0);
	size_t index = index_of(admission, "orders", 0);
	uint64_t before = admission_get(admission, index).version;

	(void)state;
	(void)place_one(admission, index, 1, "wanted");
	admission_dirty(admission, index);
	admission_drained(admission, index, before);
	assert_true(admission_get(admission, index).overflow);
	admission_drained(admission, index, admission_get(admission, index).version);
	assert_false(admission_get(admission, index).overflow);
	assert_true(admission_get(admission, index).dirty);
	admission_free(admission);
}

static void a_paused_stream_stores_waiting_and_overflows_after_the_pause(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 10);
	size_t index = index_of(admission, "orders", 0);
	struct pauses pauses = { NULL, 0 };
	struct pauses none = { NULL, 0 };

	(void)state;
	admission_assign(admission, index, false);
	assert_false(admission_knows_pauses(admission));
	assert_true(pauses_add(&pauses, PAUSE_TOPIC, "orders", true));
	assert_true(admission_set_pauses(admission, &pauses));
	assert_true(admission_get(admission, index).paused);
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_WAITING);
	assert_false(admission_get(admission, index).overflow);
	admission_dirty(admission, index);
	assert_true(admission_get(admission, (size_t)index_of(admission, "orders", 7)).paused);
	assert_false(admission_get(admission, (size_t)index_of(admission, "other", 0)).paused);
	assert_true(admission_stops_reading(admission));
	assert_false(admission_reads(admission, "orders"));
	assert_true(admission_reads(admission, "other"));
	assert_true(admission_knows_pauses(admission));
	assert_true(admission_set_pauses(admission, &none));
	assert_true(admission_get(admission, index).overflow);
	assert_false(admission_stops_reading(admission));
	pauses_fini(&pauses);
	admission_free(admission);
}

/* Without a handler nothing can end an overflow, so storing does not wait for that. */
static void an_overflow_without_a_handler_does_not_drain(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 0, 100);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	want(admission);
	(void)place_one(admission, index, 1, "wanted");
	assert_true(admission_is_draining(admission, index));
	admission_set_routing(admission, NULL);
	assert_true(admission_get(admission, index).overflow);
	assert_false(admission_is_draining(admission, index));
	admission_free(admission);
}

static void the_budget_counts_bytes_also(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 150);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	want(admission);
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_CLAIMED);
	assert_int_equal(place_one(admission, index, 2, "wanted").kind, PLACEMENT_WAITING);
	admission_free(admission);
}

static void a_message_larger_than_the_budget_is_claimed_alone(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 50);
	size_t index = index_of(admission, "orders", 0);
	size_t other = index_of(admission, "orders", 1);

	(void)state;
	want(admission);
	assert_int_equal(place_one(admission, index, 1, "wanted").kind, PLACEMENT_CLAIMED);
	assert_int_equal(place_one(admission, other, 1, "wanted").kind, PLACEMENT_WAITING);
	admission_free(admission);
}

static void a_reservation_grants_what_is_left(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)state;
	assert_int_equal(admission_reserve(admission, 7), 7);
	assert_int_equal(admission_reserve(admission, 7), 3);
	assert_int_equal(admission_reserve(admission, 7), 0);
	admission_charge(admission, 900);
	admission_release(admission, 2, 0);
	admission_usage(admission, &count, &bytes, &bytes_free);
	assert_int_equal(count, 8);
	assert_int_equal(bytes, 900);
	assert_int_equal(bytes_free, 100);
	admission_free(admission);
}

static void without_free_bytes_nothing_is_granted(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);

	(void)state;
	assert_int_equal(admission_reserve(admission, 1), 1);
	admission_charge(admission, 2000);
	assert_int_equal(admission_reserve(admission, 1), 0);
	admission_free(admission);
}

static void an_empty_memory_has_bytes_for_one_more(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 10);
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)state;
	admission_usage(admission, &count, &bytes, &bytes_free);
	assert_int_equal(bytes_free, 1 << 20);
	admission_free(admission);
}

static void releasing_too_much_does_not_enlarge_the_budget(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);

	(void)state;
	admission_release(admission, 5, 500);
	assert_int_equal(admission_reserve(admission, 100), 10);
	admission_free(admission);
}

static void waiting_and_claimed_messages_are_pending(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 1);
	size_t index = index_of(admission, "orders", 0);

	(void)state;
	admission_set_waiting(admission, 40, admission_placed(admission));
	(void)place_one(admission, index, 1, "wanted"); /* claimed */
	(void)place_one(admission, index, 2, "wanted"); /* waits */
	assert_int_equal(admission_pending(admission), 42);
	admission_free(admission);
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* One message at a time, as dispatch does. Only the last one makes room for what the test waits for. */
static void *give_back(void *arg)
{
	for (int i = 0; i < 5; i++)
		admission_release(arg, 1, 100);
	return NULL;
}

static void a_wait_ends_when_budget_is_released(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 5, 1000);
	pthread_t thread;

	(void)state;
	assert_int_equal(admission_reserve(admission, 5), 5);
	assert_int_equal(pthread_create(&thread, NULL, give_back, admission), 0);
	assert_true(admission_wait(admission, 5, 500, LONG_MS));
	(void)pthread_join(thread, NULL);
	admission_free(admission);
}

static void a_wait_without_budget_ends_at_its_timeout(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 5, 1000);

	(void)state;
	assert_int_equal(admission_reserve(admission, 1), 1);
	assert_false(admission_wait(admission, 5, 500, 10));
	admission_free(admission);
}

static void a_request_above_the_whole_budget_does_not_wait(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 5, 1000);
	int64_t before = clock_now_ms();

	(void)state;
	assert_false(admission_wait(admission, 6, 10, LONG_MS));
	assert_false(admission_wait(admission, 2, 1001, LONG_MS));
	assert_true(clock_now_ms() - before < LONG_MS / 2);
	admission_free(admission);
}

static void *drain(void *arg)
{
	struct admission *admission = arg;

	admission_drained(admission, 0, admission_get(admission, 0).version);
	return NULL;
}

static void a_wait_for_the_end_of_an_overflow_ends_when_it_ends(void **state)
{
	struct admission *admission = an_open_admission(ORDERING_KEY, 2);
	size_t index = index_of(admission, "orders", 0);
	pthread_t thread;

	(void)state;
	for (uint64_t key = 1; key < 4; key++)
		(void)place_one(admission, index, key, "wanted");
	assert_false(
		admission_wait_drained(admission, index, LONG_MS)); /* no room: not worth waiting */
	admission_release(admission, 2, 200);
	assert_false(admission_wait_drained(admission, index, 10));
	assert_int_equal(pthread_create(&thread, NULL, drain, admission), 0);
	assert_true(admission_wait_drained(admission, index, LONG_MS));
	(void)pthread_join(thread, NULL);
	admission_free(admission);
}

/* --- Memory ---------------------------------------------------------------------------------- */

static void without_memory_no_partition_is_partly_created(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);

	(void)state;
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = admission_stream(admission, "orders", 20, 0, NULL);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_int_equal(admission_count(admission), 0);
	}
	admission_free(admission);
}

static void without_memory_no_admission_is_created(void **state)
{
	const struct admission_limits limits = { ORDERING_KEY, 10, 1000 };
	struct admission *admission = NULL;

	(void)state;
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = admission_new(&admission, &limits, NULL);
		if (!alloc_fail_never())
			break;
		assert_int_equal(r, FAULT_MEMORY);
		assert_null(admission);
	}
	admission_free(admission);
}

static void a_lane_is_in_the_set_once(void **state)
{
	struct lane_set set = LANE_SET_INIT;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(lane_set_add(&set, (size_t)(i % 3), i << 32), 1);
	assert_int_equal(lane_set_add(&set, 0, 0), 0);
	assert_true(lane_set_has(&set, 1, (uint64_t)1 << 32));
	assert_false(lane_set_has(&set, 2, (uint64_t)1 << 32));
	lane_set_clear(&set);
	assert_false(lane_set_has(&set, 1, (uint64_t)1 << 32));
	lane_set_fini(&set);
}

static void a_consumer_is_known_until_others_are(void **state)
{
	struct admission *admission = an_admission(ORDERING_NONE, 10, 1000);
	struct consumers known = CONSUMERS_INIT;
	struct buf names = BUF_INIT;

	(void)state;
	assert_null(admission_known(admission, ""));
	assert_int_equal(admission_consumer(admission, "", ORDERING_KEY, NULL), 0);
	assert_string_equal(admission_known(admission, ""), "");
	assert_int_equal(admission_strictest(admission), ORDERING_NONE);
	assert_int_equal(admission_consumer(admission, "billing", ORDERING_PARTITION, NULL), 1);
	assert_int_equal(admission_consumer(admission, "billing", ORDERING_NONE, NULL), 1);
	assert_int_equal(admission_consumer(admission, "search", ORDERING_KEY, NULL), 2);
	assert_int_equal(admission_ordering_of(admission, "billing"), ORDERING_PARTITION);
	assert_int_equal(admission_strictest(admission), ORDERING_PARTITION);
	admission_add_known(admission, &names);
	assert_string_equal(buf_str(&names), "\"billing\", \"search\"");
	assert_non_null(consumers_add(&known, "search", ORDERING_KEY));
	assert_int_equal(admission_keep_known(admission, &known, NULL), 0);
	assert_null(admission_known(admission, "billing"));
	assert_string_equal(admission_known(admission, "search"), "search");
	assert_int_equal(admission_strictest(admission), ORDERING_PARTITION);
	consumers_fini(&known);
	buf_fini(&names);
	admission_free(admission);
}

static void streams_of_a_partition_are_placed_apart(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1 << 20);
	const struct subscription all = { NULL, NULL };
	struct message message = message_of(7, "wanted");
	struct routing *routing = NULL;
	size_t first;
	size_t second;

	(void)state;
	assert_int_equal(admission_consumer(admission, "search", ORDERING_PARTITION, NULL), 1);
	first = (size_t)admission_stream(admission, "orders", 3, 0, NULL);
	second = (size_t)admission_stream(admission, "orders", 3, 1, NULL);
	assert_int_not_equal(first, second);
	assert_string_equal(admission_get(admission, second).consumer, "search");
	assert_int_equal(admission_get(admission, second).partition, 3);
	assert_int_equal(routing_new(&routing, NULL), 0);
	assert_int_equal(
		routing_set(routing, (struct handler_id){ "search", "h" }, &all, 1, NULL), 0);
	admission_set_routing(admission, routing);
	admission_dirty(admission, second);
	{
		struct message *const messages[] = { &message, &message };
		const size_t indexes[] = { first, second };
		struct placement out[2];

		admission_place(admission, messages, indexes, 2, out);
		assert_int_equal(out[0].kind, PLACEMENT_PARKED);
		assert_int_equal(out[1].kind, PLACEMENT_CLAIMED);
		assert_int_equal(out[1].asks, ASKS_STREAM);
	}
	admission_free(admission);
}

static void a_look_counts_while_it_is_recent(void **state)
{
	struct admission *admission = an_admission(ORDERING_KEY, 10, 1000);
	struct admission_look look = { clock_now_ms(), LONG_MS, 7, true };

	(void)state;
	assert_int_equal(admission_look(admission).at_ms, 0);
	assert_false(admission_is_unchanged(admission, 0));
	admission_set_look(admission, look);
	assert_true(admission_look(admission).orphans);
	assert_true(admission_is_unchanged(admission, 7));
	assert_false(admission_is_unchanged(admission, 8));
	look.at_ms -= LONG_MS;
	admission_set_look(admission, look);
	assert_int_equal(admission_look(admission).at_ms, 0);
	assert_false(admission_is_unchanged(admission, 7));
	admission_free(admission);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_partition_keeps_its_index),
		cmocka_unit_test(a_consumer_is_known_until_others_are),
		cmocka_unit_test(streams_of_a_partition_are_placed_apart),
		cmocka_unit_test(an_assigned_partition_is_dirty_when_rows_of_it_wait),
		cmocka_unit_test(an_overflow_outlasts_the_assignment_that_dispatch_notes_later),
		cmocka_unit_test(a_partition_is_clean_only_if_its_version_did_not_change),
		cmocka_unit_test(in_a_clean_partition_no_message_is_checked),
		cmocka_unit_test(in_a_dirty_partition_messages_with_a_key_are_checked),
		cmocka_unit_test(with_partition_order_every_message_is_checked),
		cmocka_unit_test(without_order_no_message_is_checked),
		cmocka_unit_test(a_message_without_handler_is_parked_and_takes_no_budget),
		cmocka_unit_test(before_the_first_handler_everything_is_parked),
		cmocka_unit_test(in_one_batch_messages_behind_a_parked_key_are_parked),
		cmocka_unit_test(the_next_batch_does_not_remember_parked_keys),
		cmocka_unit_test(with_partition_order_all_messages_behind_a_parked_one_are_parked),
		cmocka_unit_test(without_memory_for_parked_keys_all_ordered_messages_are_parked),
		cmocka_unit_test(without_budget_the_partition_overflows_from_that_message_on),
		cmocka_unit_test(an_overflow_ends_when_the_table_was_claimed_empty_since),
		cmocka_unit_test(a_paused_stream_stores_waiting_and_overflows_after_the_pause),
		cmocka_unit_test(an_overflow_without_a_handler_does_not_drain),
		cmocka_unit_test(the_budget_counts_bytes_also),
		cmocka_unit_test(a_message_larger_than_the_budget_is_claimed_alone),
		cmocka_unit_test(a_reservation_grants_what_is_left),
		cmocka_unit_test(without_free_bytes_nothing_is_granted),
		cmocka_unit_test(an_empty_memory_has_bytes_for_one_more),
		cmocka_unit_test(releasing_too_much_does_not_enlarge_the_budget),
		cmocka_unit_test(waiting_and_claimed_messages_are_pending),
		cmocka_unit_test(a_wait_ends_when_budget_is_released),
		cmocka_unit_test(a_wait_without_budget_ends_at_its_timeout),
		cmocka_unit_test(a_request_above_the_whole_budget_does_not_wait),
		cmocka_unit_test(a_wait_for_the_end_of_an_overflow_ends_when_it_ends),
		cmocka_unit_test(without_memory_no_partition_is_partly_created),
		cmocka_unit_test(without_memory_no_admission_is_created),
		cmocka_unit_test(a_lane_is_in_the_set_once),
		cmocka_unit_test(a_look_counts_while_it_is_recent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
