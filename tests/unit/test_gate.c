/* The gate: budget, places, and a partition that is clean only when nothing of it waits. */
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
#include "base/clock.h"
#include "model/gate.h"
#include "model/lane_set.h"

#define LONG_MS 20000
#define MANY    64

static struct gate *a_gate(enum ordering ordering, int64_t claimed, int64_t bytes)
{
	const struct gate_limits limits = { ordering, claimed, bytes };
	struct gate *gate = NULL;

	assert_int_equal(gate_new(&gate, &limits, NULL), 0);
	return gate;
}

/* Somebody wants everything of type "wanted". */
static void want(struct gate *gate)
{
	const struct subscription subscription = { NULL, "wanted" };
	struct routing *routing = NULL;

	assert_int_equal(routing_new(&routing, NULL), 0);
	assert_int_equal(routing_set(routing, "handler", &subscription, 1, NULL), 0);
	gate_set_routing(gate, routing);
}

static struct gate *an_open_gate(enum ordering ordering, int64_t claimed)
{
	struct gate *gate = a_gate(ordering, claimed, 1 << 20);

	want(gate);
	return gate;
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
static void place(struct gate *gate, size_t index, struct message *messages, size_t count,
	struct placement *out)
{
	struct message *list[MANY];
	size_t indexes[MANY];

	for (size_t i = 0; i < count; i++) {
		list[i] = &messages[i];
		indexes[i] = index;
	}
	gate_place(gate, list, indexes, count, out);
}

static struct placement place_one(struct gate *gate, size_t index, uint64_t key, const char *type)
{
	struct message message = message_of(key, type);
	struct placement placement;

	place(gate, index, &message, 1, &placement);
	return placement;
}

static size_t index_of(struct gate *gate, const char *topic, int32_t partition)
{
	int index = gate_partition(gate, topic, partition, NULL);

	assert_true(index >= 0);
	return (size_t)index;
}

/* --- Partitions ------------------------------------------------------------------------------ */

static void a_partition_keeps_its_index(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);
	char topic[16];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(topic, sizeof(topic), "t%d", i % 100);
		assert_int_equal(index_of(gate, topic, i / 100), i);
	}
	assert_int_equal(gate_count(gate), 2000);
	assert_int_equal(index_of(gate, "t7", 3), 307);
	assert_string_equal(gate_look(gate, 307).topic, "t7");
	assert_int_equal(gate_look(gate, 307).partition, 3);
	gate_free(gate);
}

static void an_assigned_partition_is_dirty_when_rows_of_it_wait(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	assert_false(gate_look(gate, index).assigned);
	gate_assign(gate, index, true);
	assert_true(gate_look(gate, index).assigned);
	assert_true(gate_look(gate, index).dirty);
	gate_revoke(gate, index);
	assert_false(gate_look(gate, index).assigned);
	gate_assign(gate, index, false);
	assert_false(gate_look(gate, index).dirty);
	gate_free(gate);
}

static void cleaning_needs_the_version_read_before_the_look(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);
	size_t index = index_of(gate, "orders", 0);
	uint64_t before = gate_look(gate, index).version;

	(void)state;
	gate_dirty(gate, index);
	gate_clean(gate, index, before);
	assert_true(gate_look(gate, index).dirty);
	gate_clean(gate, index, gate_look(gate, index).version);
	assert_false(gate_look(gate, index).dirty);
	gate_free(gate);
}

/* --- Places ---------------------------------------------------------------------------------- */

static void a_healthy_partition_asks_nothing(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	struct placement placement = place_one(gate, index_of(gate, "orders", 0), 1, "wanted");

	(void)state;
	assert_int_equal(placement.place, PLACE_CLAIM);
	assert_false(placement.asks);
	gate_free(gate);
}

static void in_a_dirty_partition_messages_with_a_key_ask(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	gate_dirty(gate, index);
	assert_true(place_one(gate, index, 1, "wanted").asks);
	assert_false(place_one(gate, index, 0, "wanted").asks);
	gate_free(gate);
}

static void with_order_by_partition_every_message_asks(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_PARTITION, 10);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	gate_dirty(gate, index);
	assert_true(place_one(gate, index, 0, "wanted").asks);
	gate_free(gate);
}

static void without_order_nothing_asks(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_NONE, 10);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	gate_dirty(gate, index);
	assert_false(place_one(gate, index, 1, "wanted").asks);
	gate_free(gate);
}

static void what_nobody_wants_is_parked_and_takes_no_budget(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	assert_int_equal(place_one(gate, index, 1, "other").place, PLACE_PARK);
	assert_int_equal(gate_pending(gate), 1);
	assert_true(gate_wait(gate, 10, 1000, 0));
	gate_free(gate);
}

static void before_any_handler_came_everything_is_parked(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	assert_int_equal(place_one(gate, index, 1, "wanted").place, PLACE_PARK);
	want(gate);
	assert_int_equal(place_one(gate, index, 1, "wanted").place, PLACE_CLAIM);
	gate_free(gate);
}

static void behind_a_parked_one_of_the_same_batch_its_key_is_parked_too(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	struct message messages[] = { message_of(1, "wanted"), message_of(2, "other"),
		message_of(2, "wanted"), message_of(1, "wanted"), message_of(0, "other"),
		message_of(0, "wanted") };
	const enum place expected[] = { PLACE_CLAIM, PLACE_PARK, PLACE_PARK, PLACE_CLAIM,
		PLACE_PARK, PLACE_CLAIM };
	struct placement out[6];

	(void)state;
	place(gate, index_of(gate, "orders", 0), messages, 6, out);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(out[i].place, expected[i]);
	gate_free(gate);
}

static void the_next_batch_has_forgotten_who_was_parked(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	(void)place_one(gate, index, 1, "other");
	assert_int_equal(place_one(gate, index, 1, "wanted").place, PLACE_CLAIM);
	gate_free(gate);
}

static void with_order_by_partition_all_behind_a_parked_one_are_parked(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_PARTITION, 10);
	struct message messages[] = { message_of(0, "other"), message_of(5, "wanted") };
	struct placement out[2];

	(void)state;
	place(gate, index_of(gate, "orders", 0), messages, 2, out);
	assert_int_equal(out[1].place, PLACE_PARK);
	assert_int_equal(
		place_one(gate, index_of(gate, "orders", 1), 5, "wanted").place, PLACE_CLAIM);
	gate_free(gate);
}

static void without_memory_to_remember_the_parked_all_that_is_ordered_is_parked(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 10);
	struct message messages[] = { message_of(1, "other"), message_of(2, "wanted"),
		message_of(0, "wanted") };
	struct placement out[3];
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	alloc_fail_at(1);
	place(gate, index, messages, 3, out);
	assert_true(alloc_fail_never());
	assert_int_equal(out[1].place, PLACE_PARK);
	assert_int_equal(out[2].place, PLACE_CLAIM);
	gate_free(gate);
}

/* --- Room ------------------------------------------------------------------------------------ */

static void without_room_the_partition_overflows_from_that_message_on(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 2);
	size_t index = index_of(gate, "orders", 0);
	struct message messages[] = { message_of(1, "wanted"), message_of(2, "wanted"),
		message_of(3, "wanted") };
	struct placement out[3];

	(void)state;
	place(gate, index, messages, 3, out);
	assert_int_equal(out[1].place, PLACE_CLAIM);
	assert_int_equal(out[2].place, PLACE_WAIT);
	assert_true(gate_look(gate, index).overflow);
	gate_release(gate, 2, 200);
	assert_int_equal(place_one(gate, index, 9, "wanted").place, PLACE_WAIT);
	assert_int_equal(
		place_one(gate, index_of(gate, "orders", 1), 9, "wanted").place, PLACE_CLAIM);
	gate_free(gate);
}

static void an_overflow_ends_when_the_table_was_claimed_empty_since(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 0);
	size_t index = index_of(gate, "orders", 0);
	uint64_t before = gate_look(gate, index).version;

	(void)state;
	(void)place_one(gate, index, 1, "wanted");
	gate_dirty(gate, index);
	gate_drained(gate, index, before);
	assert_true(gate_look(gate, index).overflow);
	gate_drained(gate, index, gate_look(gate, index).version);
	assert_false(gate_look(gate, index).overflow);
	assert_true(gate_look(gate, index).dirty);
	gate_free(gate);
}

static void bytes_are_room_too(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 150);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	want(gate);
	assert_int_equal(place_one(gate, index, 1, "wanted").place, PLACE_CLAIM);
	assert_int_equal(place_one(gate, index, 2, "wanted").place, PLACE_WAIT);
	gate_free(gate);
}

static void a_message_larger_than_the_budget_goes_alone(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 50);
	size_t index = index_of(gate, "orders", 0);
	size_t other = index_of(gate, "orders", 1);

	(void)state;
	want(gate);
	assert_int_equal(place_one(gate, index, 1, "wanted").place, PLACE_CLAIM);
	assert_int_equal(place_one(gate, other, 1, "wanted").place, PLACE_WAIT);
	gate_free(gate);
}

static void a_reservation_grants_what_is_left(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)state;
	assert_int_equal(gate_reserve(gate, 7), 7);
	assert_int_equal(gate_reserve(gate, 7), 3);
	assert_int_equal(gate_reserve(gate, 7), 0);
	gate_charge(gate, 900);
	gate_release(gate, 2, 0);
	gate_usage(gate, &count, &bytes, &bytes_free);
	assert_int_equal(count, 8);
	assert_int_equal(bytes, 900);
	assert_int_equal(bytes_free, 100);
	gate_free(gate);
}

static void without_free_bytes_nothing_is_granted(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);

	(void)state;
	assert_int_equal(gate_reserve(gate, 1), 1);
	gate_charge(gate, 2000);
	assert_int_equal(gate_reserve(gate, 1), 0);
	gate_free(gate);
}

static void an_empty_memory_has_bytes_for_one_more(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 10);
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)state;
	gate_usage(gate, &count, &bytes, &bytes_free);
	assert_int_equal(bytes_free, 1 << 20);
	gate_free(gate);
}

static void giving_back_too_much_does_not_make_room_out_of_nothing(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);

	(void)state;
	gate_release(gate, 5, 500);
	assert_int_equal(gate_reserve(gate, 100), 10);
	gate_free(gate);
}

static void what_waits_and_what_is_claimed_is_pending(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 1);
	size_t index = index_of(gate, "orders", 0);

	(void)state;
	gate_set_waiting(gate, 40, gate_placed(gate));
	(void)place_one(gate, index, 1, "wanted"); /* claimed */
	(void)place_one(gate, index, 2, "wanted"); /* waits */
	assert_int_equal(gate_pending(gate), 42);
	gate_free(gate);
}

/* --- Waiting --------------------------------------------------------------------------------- */

static void *give_back(void *arg)
{
	gate_release(arg, 5, 500);
	return NULL;
}

static void a_wait_ends_when_room_comes_back(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 5, 1000);
	pthread_t thread;

	(void)state;
	assert_int_equal(gate_reserve(gate, 5), 5);
	assert_int_equal(pthread_create(&thread, NULL, give_back, gate), 0);
	assert_true(gate_wait(gate, 5, 500, LONG_MS));
	(void)pthread_join(thread, NULL);
	gate_free(gate);
}

static void a_wait_without_room_ends_by_its_timeout(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 5, 1000);

	(void)state;
	assert_int_equal(gate_reserve(gate, 1), 1);
	assert_false(gate_wait(gate, 5, 500, 10));
	gate_free(gate);
}

static void what_never_fits_is_not_waited_for(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 5, 1000);
	int64_t before = clock_now_ms();

	(void)state;
	assert_false(gate_wait(gate, 6, 10, LONG_MS));
	assert_false(gate_wait(gate, 2, 1001, LONG_MS));
	assert_true(clock_now_ms() - before < LONG_MS / 2);
	gate_free(gate);
}

static void *drain(void *arg)
{
	struct gate *gate = arg;

	gate_drained(gate, 0, gate_look(gate, 0).version);
	return NULL;
}

static void a_wait_for_the_end_of_an_overflow_ends_with_it(void **state)
{
	struct gate *gate = an_open_gate(ORDERING_KEY, 2);
	size_t index = index_of(gate, "orders", 0);
	pthread_t thread;

	(void)state;
	for (uint64_t key = 1; key < 4; key++)
		(void)place_one(gate, index, key, "wanted");
	assert_false(gate_wait_drained(gate, index, LONG_MS)); /* no room: not worth waiting */
	gate_release(gate, 2, 200);
	assert_false(gate_wait_drained(gate, index, 10));
	assert_int_equal(pthread_create(&thread, NULL, drain, gate), 0);
	assert_true(gate_wait_drained(gate, index, LONG_MS));
	(void)pthread_join(thread, NULL);
	gate_free(gate);
}

/* --- Memory ---------------------------------------------------------------------------------- */

static void without_memory_no_partition_is_half_made(void **state)
{
	struct gate *gate = a_gate(ORDERING_KEY, 10, 1000);

	(void)state;
	for (size_t n = 1;; n++) {
		int r;

		alloc_fail_at(n);
		r = gate_partition(gate, "orders", 20, NULL);
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
		assert_int_equal(gate_count(gate), 0);
	}
	gate_free(gate);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_partition_keeps_its_index),
		cmocka_unit_test(an_assigned_partition_is_dirty_when_rows_of_it_wait),
		cmocka_unit_test(cleaning_needs_the_version_read_before_the_look),
		cmocka_unit_test(a_healthy_partition_asks_nothing),
		cmocka_unit_test(in_a_dirty_partition_messages_with_a_key_ask),
		cmocka_unit_test(with_order_by_partition_every_message_asks),
		cmocka_unit_test(without_order_nothing_asks),
		cmocka_unit_test(what_nobody_wants_is_parked_and_takes_no_budget),
		cmocka_unit_test(before_any_handler_came_everything_is_parked),
		cmocka_unit_test(behind_a_parked_one_of_the_same_batch_its_key_is_parked_too),
		cmocka_unit_test(the_next_batch_has_forgotten_who_was_parked),
		cmocka_unit_test(with_order_by_partition_all_behind_a_parked_one_are_parked),
		cmocka_unit_test(
			without_memory_to_remember_the_parked_all_that_is_ordered_is_parked),
		cmocka_unit_test(without_room_the_partition_overflows_from_that_message_on),
		cmocka_unit_test(an_overflow_ends_when_the_table_was_claimed_empty_since),
		cmocka_unit_test(bytes_are_room_too),
		cmocka_unit_test(a_message_larger_than_the_budget_goes_alone),
		cmocka_unit_test(a_reservation_grants_what_is_left),
		cmocka_unit_test(without_free_bytes_nothing_is_granted),
		cmocka_unit_test(an_empty_memory_has_bytes_for_one_more),
		cmocka_unit_test(giving_back_too_much_does_not_make_room_out_of_nothing),
		cmocka_unit_test(what_waits_and_what_is_claimed_is_pending),
		cmocka_unit_test(a_wait_ends_when_room_comes_back),
		cmocka_unit_test(a_wait_without_room_ends_by_its_timeout),
		cmocka_unit_test(what_never_fits_is_not_waited_for),
		cmocka_unit_test(a_wait_for_the_end_of_an_overflow_ends_with_it),
		cmocka_unit_test(without_memory_no_partition_is_half_made),
		cmocka_unit_test(a_lane_is_in_the_set_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
