/* How handlers share what is limited, and which queue has the entries of a handler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/order/handler_queues.h"
#include "report/meters.h"

#define CLAIMED   200 /* inbox.max_claimed */
#define MOST      100 /* inbox.max_in_flight */
#define BYTES_ALL 3000

/* Three connected handlers. */
struct world {
	struct handler_queues queues;
	struct handler_queue slow;
	struct handler_queue other;
	struct handler_queue third;
};

static void share_out(struct world *world)
{
	const struct handler_limits limits = { .claimed = { CLAIMED, BYTES_ALL },
		.in_flight = { MOST, BYTES_ALL } };

	handler_queues_share_out(&world->queues, &limits);
	handler_queues_keep_shares(&world->queues);
}

static void init(struct world *world)
{
	*world = (struct world){
		.slow = { .connections = 1, .window = 1000 },
		.other = { .connections = 1, .window = 1000 },
		.third = { .connections = 1, .window = 10 },
	};
	assert_true(handler_queues_add(
		&world->queues, &world->slow, (struct handler_id){ "", "slow" }));
	assert_true(handler_queues_add(
		&world->queues, &world->other, (struct handler_id){ "billing", "slow" }));
	assert_true(handler_queues_add(
		&world->queues, &world->third, (struct handler_id){ "", "third" }));
	share_out(world);
}

static void fini(struct world *world)
{
	handler_queues_remove(&world->queues, &world->slow);
	handler_queues_remove(&world->queues, &world->other);
	handler_queues_remove(&world->queues, &world->third);
}

/* So many messages of the handler are in flight, all of the size 1. */
static void fly(struct world *world, struct handler_queue *queue, size_t count)
{
	for (int m = 0; m < MEASURES; m++) {
		world->queues.in_flight[m] += count - queue->in_flight[m];
		queue->in_flight[m] = count;
	}
	share_out(world);
}

/* It has so many messages in memory, all of the size 1. */
static void hold(struct world *world, struct handler_queue *queue, size_t count)
{
	for (int m = 0; m < MEASURES; m++) {
		world->queues.held[m] += count - queue->held[m];
		queue->held[m] = count;
	}
	share_out(world);
}

static size_t room(const struct world *world, const struct handler_queue *queue)
{
	return handler_queue_room(&world->queues, queue, MESSAGES);
}

static size_t limit(const struct world *world, const struct handler_queue *queue)
{
	return handler_queue_limit(&world->queues, queue, MESSAGES);
}

/* The share of each is 33. The window of the third handler is 10, so it needs no more. */
static void a_handler_leaves_their_shares_to_all_others(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	assert_int_equal(room(&world, &world.slow), 100 - 33 - 10);
	fly(&world, &world.slow, 57);
	assert_int_equal(room(&world, &world.slow), 0);
	assert_int_equal(room(&world, &world.other), 33);
	fly(&world, &world.other, 33);
	assert_int_equal(room(&world, &world.other), 0);
	assert_int_equal(room(&world, &world.third), 10);
	fini(&world);
}

/* It connects when the others have everything in flight. */
static void what_is_answered_is_for_a_handler_below_its_share(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	fly(&world, &world.slow, 60);
	fly(&world, &world.other, 40);
	assert_int_equal(room(&world, &world.third), 0);
	fly(&world, &world.slow, 56);
	assert_int_equal(room(&world, &world.slow), 0);
	assert_int_equal(room(&world, &world.other), 0);
	assert_int_equal(room(&world, &world.third), 4);
	fini(&world);
}

static void without_others_one_handler_may_use_everything(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	world.other.connections = 0;
	world.third.paused = true;
	fly(&world, &world.slow, 90);
	hold(&world, &world.slow, CLAIMED);
	assert_int_equal(room(&world, &world.slow), 10);
	assert_true(limit(&world, &world.slow) > CLAIMED);
	fini(&world);
}

/* The third one restarts: it drains, and then it is gone for a moment. */
static void a_handler_that_restarts_keeps_its_share_in_flight(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	world.third.window = 0;
	world.third.leaving = 10;
	share_out(&world);
	assert_int_equal(room(&world, &world.slow), 100 - 33 - 10);
	world.third.connections = 0;
	share_out(&world);
	assert_int_equal(room(&world, &world.slow), 100 - 33 - 10);
	world.third.leaving = 0;
	share_out(&world);
	assert_int_equal(room(&world, &world.slow), 100 - 50);
	fini(&world);
}

/* Otherwise a handler with a window of 0 would reduce what the others may do. */
static void a_handler_without_a_window_keeps_no_share_in_flight(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	world.third.window = 0;
	share_out(&world);
	assert_int_equal(room(&world, &world.slow), 100 - 33);
	fini(&world);
}

static void deliveries_leave_a_part_of_memory_free(void **state)
{
	struct world world;
	struct handler_limits limits = { .claimed = { 50, BYTES_ALL },
		.in_flight = { MOST, BYTES_ALL } };

	(void)state;
	init(&world);
	world.other.window = world.third.window = 1;
	handler_queues_share_out(&world.queues, &limits);
	handler_queues_keep_shares(&world.queues);
	assert_int_equal(room(&world, &world.slow), 45 - 2);
	fini(&world);
}

static void with_fewer_places_than_handlers_each_may_have_one(void **state)
{
	struct world world;
	struct handler_limits limits = { .claimed = { 1, 1 }, .in_flight = { 1, 1 } };

	(void)state;
	init(&world);
	handler_queues_share_out(&world.queues, &limits);
	handler_queues_keep_shares(&world.queues);
	assert_int_equal(room(&world, &world.slow), 1);
	assert_int_equal(limit(&world, &world.slow), 1);
	fini(&world);
}

static void large_deliveries_leave_bytes_to_the_others(void **state)
{
	struct message message = { .bytes = 2000 };
	struct entry first = { .message = &message };
	struct entry second = { .message = &message };
	struct metrics *metrics = NULL;
	struct world world;

	(void)state;
	init(&world);
	assert_int_equal(metrics_new(&metrics, meters, METER_COUNT, NULL), 0);
	world.slow.in_flight_gauge = metrics_get(metrics, METER_IN_FLIGHT, "slow", "");
	handler_queue_assign(&world.queues, &first, &world.slow);
	handler_queue_assign(&world.queues, &second, &world.slow);
	assert_true(handler_queue_fits(&world.queues, &first));
	handler_queue_begin_flight(&world.queues, &first);
	assert_false(handler_queue_fits(&world.queues, &second));
	assert_int_equal(handler_queue_room(&world.queues, &world.other, BYTES), 1000);
	handler_queue_end_flight(&world.queues, &first);
	handler_queues_keep_shares(&world.queues);
	assert_true(handler_queue_fits(&world.queues, &second));
	metrics_free(metrics);
	fini(&world);
}

static void a_handler_may_hold_what_the_others_leave_and_a_tenth_stays_free(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	assert_int_equal(limit(&world, &world.slow), 180);
	hold(&world, &world.other, 80);
	assert_int_equal(limit(&world, &world.slow), 100);
	hold(&world, &world.third, 60);
	assert_int_equal(limit(&world, &world.slow), 66); /* its share */
	fini(&world);
}

static void a_handler_with_room_and_without_messages_needs_memory(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	fly(&world, &world.slow, 1000);
	fly(&world, &world.other, 1000);
	assert_true(handler_queues_need_memory(&world.queues));
	world.third.ready_count = 1;
	assert_false(handler_queues_need_memory(&world.queues));
	world.third.ready_count = 0;
	fly(&world, &world.third, 10);
	assert_false(handler_queues_need_memory(&world.queues));
	fly(&world, &world.third, 9);
	assert_true(handler_queues_need_memory(&world.queues));
	hold(&world, &world.third, 66);
	assert_false(handler_queues_need_memory(&world.queues));
	fini(&world);
}

static void entries_without_room_are_held_up(void **state)
{
	struct message message = { .bytes = 7 };
	struct entry entry = { .message = &message };
	struct world world;

	(void)state;
	init(&world);
	fly(&world, &world.slow, 57);
	assert_false(handler_queues_are_held_up(&world.queues));
	handler_queue_assign(&world.queues, &entry, &world.slow);
	handler_queue_push(&entry);
	assert_true(handler_queues_are_held_up(&world.queues));
	assert_int_equal(handler_queues_ready(&world.queues), 1);
	handler_queue_remove(&entry);
	assert_false(handler_queues_are_held_up(&world.queues));
	fini(&world);
}

static void a_suspect_waits_apart(void **state)
{
	struct message message = { .suspect = true };
	struct entry entry = { .message = &message };
	struct world world;

	(void)state;
	init(&world);
	handler_queue_assign(&world.queues, &entry, &world.slow);
	handler_queue_push(&entry);
	assert_ptr_equal(TAILQ_FIRST(&world.slow.suspects), &entry);
	assert_int_equal(handler_queues_ready(&world.queues), 0);
	fini(&world);
}

static void an_entry_counts_for_one_handler(void **state)
{
	struct message message = { .bytes = 7 };
	struct entry entry = { .message = &message };
	struct world world;

	(void)state;
	init(&world);
	handler_queue_assign(&world.queues, &entry, &world.slow);
	handler_queue_assign(&world.queues, &entry,
		handler_queues_find(&world.queues, (struct handler_id){ "billing", "slow" }));
	assert_int_equal(world.slow.held[MESSAGES] + world.slow.held[BYTES], 0);
	assert_int_equal(world.other.held[MESSAGES], 1);
	assert_int_equal(world.other.held[BYTES], 7);
	assert_int_equal(world.queues.held[BYTES], 7);
	assert_null(handler_queues_find(&world.queues, (struct handler_id){ "search", "slow" }));
	fini(&world);
}

static void the_events_of_a_verdict_follow_their_entry(void **state)
{
	struct message message = { .bytes = 7 };
	struct entry entry = { .message = &message, .emit_bytes = 100 };
	struct world world;

	(void)state;
	init(&world);
	handler_queue_assign(&world.queues, &entry, &world.slow);
	assert_int_equal(world.slow.emit_bytes, 100);
	handler_queue_assign(&world.queues, &entry, &world.other);
	assert_int_equal(world.slow.emit_bytes, 0);
	assert_int_equal(world.other.emit_bytes, 100);
	handler_queue_assign(&world.queues, &entry, NULL);
	assert_int_equal(world.other.emit_bytes, 0);
	fini(&world);
}

static void a_handler_has_a_backlog_of_its_own_entries_alone(void **state)
{
	struct message message = { .bytes = 1 };
	struct entry entries[HANDLER_QUEUE_BACKLOG_FROM] = { 0 };
	struct world world;

	(void)state;
	init(&world);
	for (size_t i = 0; i < HANDLER_QUEUE_BACKLOG_FROM; i++) {
		assert_false(handler_queue_has_backlog(&world.slow));
		entries[i].message = &message;
		handler_queue_assign(&world.queues, &entries[i], &world.slow);
		handler_queue_push(&entries[i]);
	}
	assert_true(handler_queue_has_backlog(&world.slow));
	assert_false(handler_queue_has_backlog(&world.other));
	assert_false(handler_queue_has_backlog(NULL));
	for (size_t i = 0; i < HANDLER_QUEUE_BACKLOG_FROM; i++) {
		handler_queue_remove(&entries[i]);
		handler_queue_assign(&world.queues, &entries[i], NULL);
		assert_false(handler_queue_has_backlog(&world.slow));
	}
	fini(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_leaves_their_shares_to_all_others),
		cmocka_unit_test(what_is_answered_is_for_a_handler_below_its_share),
		cmocka_unit_test(without_others_one_handler_may_use_everything),
		cmocka_unit_test(a_handler_that_restarts_keeps_its_share_in_flight),
		cmocka_unit_test(a_handler_without_a_window_keeps_no_share_in_flight),
		cmocka_unit_test(deliveries_leave_a_part_of_memory_free),
		cmocka_unit_test(with_fewer_places_than_handlers_each_may_have_one),
		cmocka_unit_test(large_deliveries_leave_bytes_to_the_others),
		cmocka_unit_test(a_handler_may_hold_what_the_others_leave_and_a_tenth_stays_free),
		cmocka_unit_test(a_handler_with_room_and_without_messages_needs_memory),
		cmocka_unit_test(entries_without_room_are_held_up),
		cmocka_unit_test(a_suspect_waits_apart),
		cmocka_unit_test(an_entry_counts_for_one_handler),
		cmocka_unit_test(the_events_of_a_verdict_follow_their_entry),
		cmocka_unit_test(a_handler_has_a_backlog_of_its_own_entries_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
