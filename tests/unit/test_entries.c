/* The list of verdicts: in which order the settler finds them, and which of them it must not let wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>

#include "dispatch/order/order.h"
#include "report/meters.h"

#define ROOM 64

struct world {
	struct context context;
	struct order order;
	struct event_base *base;
	struct config config;
	struct admission *admission;
	struct metrics *metrics;
	_Atomic int64_t pg_offset_ms;
	struct handler_queue queue;
	size_t stream;
	int64_t numbers; /* of the messages so far */
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct context *context = &world->context;
	const struct admission_limits limits = { ORDERING_KEY, ROOM, 1 << 20 };
	const struct handler_id id = { "", "h" };

	world->config.inbox.max_unsettled_per_key = ROOM;
	world->config.inbox.max_claimed = ROOM;
	world->config.worker.claim_batch = ROOM;
	assert_int_equal(admission_new(&world->admission, &limits, NULL), 0);
	assert_int_equal(metrics_new(&world->metrics, meters, METER_COUNT, NULL), 0);
	world->stream = (size_t)admission_stream(world->admission, "orders", 0, 0, NULL);
	admission_assign(world->admission, world->stream, true);
	assert_int_equal(admission_reserve(world->admission, ROOM), ROOM);
	world->base = event_base_new();
	context->round = event_new(world->base, -1, 0, on_round, world);
	context->options.admission = world->admission;
	context->options.config = &world->config;
	context->options.metrics = world->metrics;
	context->options.pg_offset_ms = &world->pg_offset_ms;
	assert_int_equal(order_init(&world->order, context, 1, NULL), 0);
	world->queue = (struct handler_queue){ .connections = 1, .window = ROOM, .routed = true };
	for (size_t end = 0; end < END_RETURNED; end++)
		world->queue.ended[end] = metrics_get(world->metrics, METER_CLAIM_LOST, NULL, NULL);
	assert_true(handler_queues_add(&world->order.queues, &world->queue, id));
	assert_int_equal(routing_set(world->order.routing, id, &(struct subscription){ NULL, NULL },
				 1, NULL),
		0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	order_fini(&world->order);
	handler_queues_remove(&world->order.queues, &world->queue);
	event_free(world->context.round);
	event_base_free(world->base);
	admission_free(world->admission);
	metrics_free(world->metrics);
	free(world);
	return 0;
}

static struct entry *arrive(struct world *world, uint64_t key)
{
	int64_t number = ++world->numbers;
	const struct message from = {
		.seq = number,
		.offset = number,
		.consumer = "",
		.topic = "orders",
		.type = "t",
		.key = { "k", 1 },
		.key_hash = key,
		.timestamp_ms = -1,
		.delivery_count = 1,
		.bytes = 1,
	};
	struct message *message = NULL;
	struct entry *entry;

	assert_int_equal(message_new(&message, &from, NULL), 0);
	entry_admit(&world->order, message, world->stream, ENTRY_BORN, 0);
	entry = TAILQ_LAST(&world->order.born, entry_list);
	assert_int_equal(entry->key.seq, from.seq);
	return entry;
}

static void answer(struct world *world, struct entry *entry, enum entry_end end)
{
	assert_int_equal(entry->state, ENTRY_READY);
	handler_queue_remove(entry);
	lanes_set_state(entry, ENTRY_OPEN);
	entry->end = end;
	entry->verdict.outcome = SETTLE_PROCESSED;
	entry_settle(&world->order, entry);
}

/* Takes the first verdict from the list, as the settler does. */
static struct entry *take(struct world *world)
{
	struct entry *entry = TAILQ_FIRST(&world->order.verdicts.entries);

	TAILQ_REMOVE(&world->order.verdicts.entries, entry, link);
	world->order.verdicts.count--;
	return entry;
}

static void deferred_verdicts_come_before_later_ones_of_their_lane(void **state)
{
	struct world *world = *state;
	struct entry *entries[4];
	struct job *job = (struct job *)world; /* only compared */

	for (size_t i = 0; i < 4; i++) {
		entries[i] = arrive(world, 7);
		answer(world, entries[i], END_DONE);
		if (i == 0)
			take(world)->settling.job = job;
		else if (i < 3)
			entry_defer(&world->order, take(world));
	}
	entry_finish(&world->order, entries[0], SETTLE_SETTLED);
	assert_int_equal(world->order.verdicts.deferred, 0);
	assert_int_equal(world->order.verdicts.count, 3);
	for (size_t i = 1; i < 4; i++) {
		assert_ptr_equal(take(world), entries[i]);
		assert_false(entries[i]->settling.deferred);
	}
}

/* Whether the settler must hurry: for a message that waits behind a completion, and for one that arrives behind another. */
static void complete_two(struct world *world, uint64_t key, bool urgent)
{
	struct verdict_list *verdicts = &world->order.verdicts;
	struct entry *first = arrive(world, key);
	struct entry *other = arrive(world, key + 1);

	(void)arrive(world, key);
	verdicts->urgent = false;
	answer(world, first, END_SETTLED);
	assert_int_equal(verdicts->urgent, urgent);

	answer(world, other, END_SETTLED);
	verdicts->urgent = false;
	(void)arrive(world, key + 1);
	assert_int_equal(verdicts->urgent, urgent);
}

static void nobody_waits_for_a_completion_while_the_handler_has_a_backlog(void **state)
{
	struct world *world = *state;

	complete_two(world, 1, true);
	for (uint64_t i = 0; i < HANDLER_QUEUE_BACKLOG_FROM; i++)
		(void)arrive(world, 100 + i);
	complete_two(world, 3, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			deferred_verdicts_come_before_later_ones_of_their_lane, setup, teardown),
		cmocka_unit_test_setup_teardown(
			nobody_waits_for_a_completion_while_the_handler_has_a_backlog, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
