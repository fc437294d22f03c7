/* A call of a SQL handler that cannot be given to its worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "dispatch/sessions/sql_sessions.h"
#include "report/meters.h"

struct world {
	struct context context;
	struct order order;
	struct table table;
	struct handler_groups groups;
	struct schedule schedule;
	struct sessions sessions;
	struct sql_sessions sql;
	struct sql_session session;
	struct event_base *base;
	struct config config;
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void join(struct world *world)
{
	struct connection *connection = &world->session.session.connection;
	const struct subscription subscription = { .topic = "orders" };
	const struct hello hello = { .handler = "billing",
		.consumer = "",
		.subscribe = &subscription,
		.subscribe_count = 1 };

	assert_int_equal(handler_groups_join(&world->groups, &hello, &connection->group, NULL), 0);
	TAILQ_INSERT_TAIL(&connection->group->connections, connection, link);
	TAILQ_INIT(&connection->open);
	connection->window = 2;
	connection->timeout_ms = 1000;
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct context *context = &world->context;
	const struct admission_limits limits = { ORDERING_KEY, 100, 1 << 20 };

	assert_int_equal(admission_new(&context->options.admission, &limits, NULL), 0);
	assert_int_equal(admission_stream(context->options.admission, "orders", 0, 0, NULL), 0);
	admission_assign(context->options.admission, 0, false);
	assert_int_equal(metrics_new(&context->options.metrics, meters, METER_COUNT, NULL), 0);
	world->config.inbox.max_claimed = 100;
	world->config.inbox.max_claimed_bytes = 1 << 20;
	world->config.inbox.max_unsettled_per_key = 10;
	world->config.worker.claim_batch = 10;
	world->config.retry.max_attempts = 10;
	world->config.retry.max_crashes = 1;
	context->options.config = &world->config;
	world->base = event_base_new();
	context->round = event_new(world->base, -1, 0, on_round, world);
	assert_int_equal(order_init(&world->order, context, 1, NULL), 0);
	world->order.routing_complete = true;
	table_init(&world->table, context, &world->order);
	handler_groups_init(&world->groups, &world->order, &world->table);
	assert_int_equal(schedule_init(&world->schedule, &world->groups, NULL), 0);
	world->sessions.context = context;
	world->sessions.order = &world->order;
	world->sessions.schedule = &world->schedule;
	world->session.session.sessions = &world->sessions;
	world->sql = (struct sql_sessions){
		.sessions = &world->sessions, .items = &world->session, .count = 1
	};
	join(world);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	order_fini(&world->order);
	handler_groups_fini(&world->groups);
	schedule_fini(&world->schedule);
	event_free(world->context.round);
	event_base_free(world->base);
	admission_free(world->context.options.admission);
	metrics_free(world->context.options.metrics);
	free(world);
	return 0;
}

static struct entry *a_ready_message(struct world *world, int64_t seq)
{
	const struct message from = { .seq = seq,
		.event_id = "e",
		.source = "s",
		.consumer = "",
		.topic = "orders",
		.offset = seq,
		.timestamp_ms = -1,
		.delivery_count = 1 };
	struct message *message = NULL;
	struct entry *entry;

	assert_int_equal(message_new(&message, &from, NULL), 0);
	entry_admit(&world->order, message, 0, ENTRY_BORN, 0);
	entry = entry_find(&world->order, seq, 1);
	assert_non_null(entry);
	assert_int_equal(entry->state, ENTRY_READY);
	handler_queue_remove(entry);
	return entry;
}

/* max_crashes is 1, and the crash count of the first one is raised as before the delivery of a suspect: if the call
 * counted as one that ended its connection, the message would be dead. */
static void a_call_that_was_not_made_spends_nothing(void **state)
{
	struct world *world = *state;
	struct connection *connection = &world->session.session.connection;
	struct entry *entries[] = { a_ready_message(world, 1), a_ready_message(world, 2) };

	entries[0]->raised = true;
	delivery_send(&world->schedule, connection, entries, 2);
	assert_int_equal(connection->open_count, 2);
	alloc_fail_at(1);
	sql_sessions_run(&world->sql, 0);
	assert_true(alloc_fail_never());
	assert_null(connection->call);
	assert_int_equal(connection->open_count, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(entries[i]->state, ENTRY_SETTLING);
		assert_int_equal(entries[i]->end, END_RETURNED);
		assert_int_equal(entries[i]->verdict.outcome, SETTLE_WAITING);
		/* It would meet the same fault at once. */
		assert_int_equal(entries[i]->verdict.delay_ms, 1000);
		assert_false(entries[i]->verdict.suspect);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_call_that_was_not_made_spends_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
