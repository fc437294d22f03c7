/* The share of memory of a handler: when others need what it holds above that, the handler is closed in the routing, also after
 * it has come back with another hello. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "dispatch/groups/handler_groups.h"
#include "dispatch/table/table.h"
#include "report/meters.h"

#define MAX_CLAIMED 100
#define LIMIT       90 /* while the other holds nothing */

struct world {
	struct context context;
	struct order order;
	struct table table;
	struct handler_groups groups;
	struct event_base *base;
	struct config config;
	struct handler_group *slow;
	struct handler_group *other;
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* A handler connects that subscribes to the topic with its own name. */
static struct handler_group *join(struct world *world, const char *name)
{
	const struct subscription subscription = { .topic = name };
	const struct hello hello = {
		.handler = name, .consumer = "", .subscribe = &subscription, .subscribe_count = 1
	};
	struct handler_group *group = NULL;

	assert_int_equal(handler_groups_join(&world->groups, &hello, &group, NULL), 0);
	return group;
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct context *context = &world->context;
	const struct admission_limits limits = { ORDERING_KEY, MAX_CLAIMED, 1 << 20 };

	assert_int_equal(admission_new(&context->options.admission, &limits, NULL), 0);
	assert_int_equal(metrics_new(&context->options.metrics, meters, METER_COUNT, NULL), 0);
	world->config.inbox.max_claimed = MAX_CLAIMED;
	world->config.inbox.max_claimed_bytes = 1 << 20;
	context->options.config = &world->config;
	world->base = event_base_new();
	context->round = event_new(world->base, -1, 0, on_round, world);
	world->table.context = context;
	world->table.order = &world->order;
	world->order.context = context;
	world->order.routing_complete = true;
	assert_int_equal(routing_new(&world->order.routing, NULL), 0);
	handler_groups_init(&world->groups, &world->order, &world->table);
	world->slow = join(world, "slow");
	world->other = join(world, "other");
	world->other->queue.window = 1;
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	handler_groups_fini(&world->groups);
	routing_free(world->order.routing);
	event_free(world->context.round);
	event_base_free(world->base);
	admission_free(world->context.options.admission);
	metrics_free(world->context.options.metrics);
	free(world);
	return 0;
}

/* The handler holds so many messages now. True if it gets new ones. */
static bool gets_messages_with(struct world *world, size_t held)
{
	world->order.queues.held[MESSAGES] += held - world->slow->queue.held[MESSAGES];
	world->slow->queue.held[MESSAGES] = held;
	handler_groups_update_shares(&world->groups);
	return routing_wants(world->order.routing, &(struct routing_key){ "", "slow", NULL });
}

static void a_handler_is_closed_at_its_share_until_it_holds_half(void **state)
{
	struct world *world = *state;

	assert_true(gets_messages_with(world, LIMIT - 1));
	assert_false(gets_messages_with(world, LIMIT));
	assert_false(gets_messages_with(world, LIMIT / 2 + 1));
	assert_true(gets_messages_with(world, LIMIT / 2));
	assert_true(gets_messages_with(world, 0));
}

/* Messages that are parked for nothing would cost two more updates each. */
static void a_handler_stays_open_while_no_other_needs_memory(void **state)
{
	struct world *world = *state;

	world->other->queue.ready_count = 1;
	assert_true(gets_messages_with(world, MAX_CLAIMED));
	world->other->queue.ready_count = 0;
	assert_false(gets_messages_with(world, MAX_CLAIMED));
	assert_true(gets_messages_with(world, 0));
}

static void the_largest_handler_that_exceeds_comes_first(void **state)
{
	struct world *world = *state;
	struct handler_group *third = join(world, "third");
	struct handler_queues *queues = &world->order.queues;

	world->slow->queue.held[MESSAGES] = 45;
	third->queue.held[MESSAGES] = 50;
	queues->held[MESSAGES] = 95;
	assert_null(handler_groups_largest(&world->groups, MESSAGES, SIZE_MAX)); /* still open */
	handler_groups_update_shares(&world->groups);
	assert_ptr_equal(handler_groups_largest(&world->groups, MESSAGES, SIZE_MAX), third);
	assert_ptr_equal(handler_groups_largest(&world->groups, MESSAGES, 50), world->slow);
	assert_null(handler_groups_largest(&world->groups, MESSAGES, 45));
	assert_null(handler_groups_largest(&world->groups, BYTES, SIZE_MAX));
	queues->held[MESSAGES] = world->slow->queue.held[MESSAGES] = third->queue.held[MESSAGES] =
		0;
}

/* Each change of the routing is copied for ingest and followed by a search in the table. */
static void a_handler_that_is_gone_and_holds_nothing_is_not_closed_and_opened_in_turns(void **state)
{
	struct world *world = *state;

	handler_groups_leave(&world->groups, join(world, "gone"));
	for (int i = 0; i < 4; i++) {
		assert_false(gets_messages_with(world, LIMIT)); /* nothing is left for others */
		assert_true(routing_wants(
			world->order.routing, &(struct routing_key){ "", "gone", NULL }));
	}
	assert_true(gets_messages_with(world, 0));
}

static void a_single_handler_has_no_share(void **state)
{
	struct world *world = *state;

	handler_groups_leave(&world->groups,
		handler_groups_get(&world->groups, (struct handler_id){ "", "other" }));
	assert_true(gets_messages_with(world, MAX_CLAIMED));
	assert_true(gets_messages_with(world, 0));
}

/* The subscriptions of its new hello replace those in the routing, which were closed. */
static void a_full_handler_that_comes_back_stays_closed(void **state)
{
	struct world *world = *state;

	assert_false(gets_messages_with(world, LIMIT));
	handler_groups_leave(&world->groups, world->slow);
	assert_int_equal(
		routing_remove(world->order.routing, (struct handler_id){ "", "slow" }), 0);
	assert_ptr_equal(join(world, "slow"), world->slow);
	assert_false(
		routing_wants(world->order.routing, &(struct routing_key){ "", "slow", NULL }));
	assert_true(gets_messages_with(world, 0));
}

/* What operators have paused is this handler now; NULL: nothing. */
static void pause_only(struct world *world, const char *name)
{
	struct pauses pauses = { NULL, 0 };

	assert_true(name == NULL || pauses_add(&pauses, PAUSE_HANDLER, name, false));
	handler_groups_set_pauses(&world->groups, &pauses);
}

static void a_handler_is_resumed_by_the_next_tick_if_memory_was_lacking(void **state)
{
	struct world *world = *state;

	pause_only(world, "slow");
	assert_false(gets_messages_with(world, 0));
	alloc_fail_at(1);
	pause_only(world, NULL);
	assert_true(alloc_fail_never());
	assert_false(gets_messages_with(world, 0));
	handler_groups_tick(&world->groups, 1);
	assert_true(gets_messages_with(world, 0));
}

/* The list that the heartbeat would write now. */
static void assert_list(struct world *world,
	void (*write)(struct handler_groups *groups, struct buf *out), const char *json)
{
	struct buf out = BUF_INIT;

	write(&world->groups, &out);
	assert_string_equal(buf_str(&out), json);
	buf_fini(&out);
}

/* A truncated list would not be JSON, and PostgreSQL would refuse the heartbeat. The names are so long that the list grows
 * while it is built. */
static void without_memory_the_lists_stay_as_they_were_until_the_next_tick(void **state)
{
	struct world *world = *state;
	char name[255] = { '\0' };
	char after[600] = "[\"other\"";
	char before[700];

	for (int letter = 'a'; letter <= 'b'; letter++) {
		(void)memset(name, letter, sizeof(name) - 1);
		(void)join(world, name);
		(void)snprintf(after + strlen(after), sizeof(after) - strlen(after), ",\"%s\"%s",
			name, letter == 'b' ? "]" : "");
	}
	(void)snprintf(before, sizeof(before), "[\"slow\",%s", after + 1);
	for (size_t n = 1; n <= 3; n += 2) { /* the first allocation of the list, and its growth */
		assert_list(world, handler_groups_write_names, before);
		alloc_fail_at(n);
		handler_groups_leave(&world->groups, world->slow);
		assert_true(alloc_fail_never());
		assert_list(world, handler_groups_write_names, before);
		assert_list(world, handler_groups_write_away, "[]");
		handler_groups_tick(&world->groups, 1);
		assert_list(world, handler_groups_write_names, after);
		world->slow->queue.connections = 1;
		handler_groups_publish(&world->groups);
	}
	assert_list(world, handler_groups_write_paused, "[]");
	alloc_fail_at(3); /* the first two are of the pause itself */
	pause_only(world, "nobody");
	assert_true(alloc_fail_never());
	assert_list(world, handler_groups_write_paused, "[]");
	handler_groups_tick(&world->groups, 1);
	assert_list(world, handler_groups_write_paused,
		"[{\"kind\":\"handler\",\"name\":\"nobody\",\"ingest\":false}]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_handler_is_closed_at_its_share_until_it_holds_half),
		TEST(a_handler_stays_open_while_no_other_needs_memory),
		TEST(the_largest_handler_that_exceeds_comes_first),
		TEST(a_handler_that_is_gone_and_holds_nothing_is_not_closed_and_opened_in_turns),
		TEST(a_single_handler_has_no_share),
		TEST(a_full_handler_that_comes_back_stays_closed),
		TEST(a_handler_is_resumed_by_the_next_tick_if_memory_was_lacking),
		TEST(without_memory_the_lists_stay_as_they_were_until_the_next_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
