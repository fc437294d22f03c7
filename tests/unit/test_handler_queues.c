/* How handlers share what is limited, and which queue has the entries of a handler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/order/handler_queues.h"

#define MOST 100 /* inbox.max_in_flight */

/* Two connected handlers. */
struct world {
	struct handler_queues queues;
	struct handler_queue slow;
	struct handler_queue other;
};

static void init(struct world *world)
{
	*world = (struct world){ .slow.connections = 1, .other.connections = 1 };
	assert_true(handler_queues_add(
		&world->queues, &world->slow, (struct handler_id){ "", "slow" }));
	assert_true(handler_queues_add(
		&world->queues, &world->other, (struct handler_id){ "billing", "slow" }));
}

static void fini(struct world *world)
{
	handler_queues_remove(&world->queues, &world->slow);
	handler_queues_remove(&world->queues, &world->other);
}

static void fly(struct world *world, struct handler_queue *queue, size_t count)
{
	world->queues.in_flight += count;
	queue->in_flight += count;
}

static size_t allowance(const struct world *world, const struct handler_queue *queue)
{
	return handler_queues_allowance(&world->queues, queue, MOST);
}

static void one_handler_leaves_a_tenth_to_the_others(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	assert_int_equal(allowance(&world, &world.slow), 90);
	fly(&world, &world.slow, 90);
	assert_int_equal(allowance(&world, &world.slow), 0);
	assert_int_equal(allowance(&world, &world.other), 10);
	fini(&world);
}

static void without_others_one_handler_may_use_everything(void **state)
{
	struct world world;

	(void)state;
	init(&world);
	world.other.connections = 0;
	fly(&world, &world.slow, 90);
	assert_int_equal(allowance(&world, &world.slow), 10);
	fini(&world);
}

static void a_limit_of_one_is_for_everyone(void **state)
{
	(void)state;
	assert_int_equal(handler_queues_share(1), 1);
	assert_int_equal(handler_queues_share(2), 1);
	assert_int_equal(handler_queues_share(10), 9);
}

static void entries_without_room_are_held_up(void **state)
{
	struct message message = { .bytes = 7 };
	struct entry entry = { .message = &message };
	struct world world;

	(void)state;
	init(&world);
	fly(&world, &world.slow, 90);
	assert_false(handler_queues_are_held_up(&world.queues, MOST));
	handler_queue_assign(&entry, &world.slow);
	handler_queue_push(&entry);
	assert_true(handler_queues_are_held_up(&world.queues, MOST));
	assert_int_equal(handler_queues_ready(&world.queues), 1);
	handler_queue_remove(&entry);
	assert_false(handler_queues_are_held_up(&world.queues, MOST));
	fini(&world);
}

static void a_suspect_waits_apart(void **state)
{
	struct message message = { .suspect = true };
	struct entry entry = { .message = &message };
	struct world world;

	(void)state;
	init(&world);
	handler_queue_assign(&entry, &world.slow);
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
	handler_queue_assign(&entry, &world.slow);
	handler_queue_assign(&entry,
		handler_queues_find(&world.queues, (struct handler_id){ "billing", "slow" }));
	assert_int_equal(world.slow.entry_count + world.slow.entry_bytes, 0);
	assert_int_equal(world.other.entry_count, 1);
	assert_int_equal(world.other.entry_bytes, 7);
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
	handler_queue_assign(&entry, &world.slow);
	assert_int_equal(world.slow.emit_bytes, 100);
	handler_queue_assign(&entry, &world.other);
	assert_int_equal(world.slow.emit_bytes, 0);
	assert_int_equal(world.other.emit_bytes, 100);
	handler_queue_assign(&entry, NULL);
	assert_int_equal(world.other.emit_bytes, 0);
	fini(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_handler_leaves_a_tenth_to_the_others),
		cmocka_unit_test(without_others_one_handler_may_use_everything),
		cmocka_unit_test(a_limit_of_one_is_for_everyone),
		cmocka_unit_test(entries_without_room_are_held_up),
		cmocka_unit_test(a_suspect_waits_apart),
		cmocka_unit_test(an_entry_counts_for_one_handler),
		cmocka_unit_test(the_events_of_a_verdict_follow_their_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
