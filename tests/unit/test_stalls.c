/* Events of the relay without an answer: what waits for them, how many stalls there can be, and what becomes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "ingest/relay/decisions.h"
#include "ingest/relay/flight.h"

#define TEXT(literal) ((char[]){ literal })
#define TOPIC_HASH    UINT64_C(7)

struct world {
	struct relay_topic topic;
	struct holds holds;
	struct flight flight;
};

static int set_up(void **state)
{
	static char name[] = "orders";
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->holds = (struct holds)HOLDS_INIT;
	world->topic = (struct relay_topic){ .name = name, .hash = TOPIC_HASH };
	world->flight = (struct flight){
		.options.holds = &world->holds,
		.topic_limit = LIMIT_INIT(1, 1000),
		.group = 1,
	};
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	stalls_fini(&world->flight.stalls);
	holds_fini(&world->holds);
	free(world);
	return 0;
}

/* An event that is sent, has no answer, and is the head of its key. */
static struct flight_event head_of_key(struct world *world, int64_t seq)
{
	const struct flight_event event = {
		.seq = seq,
		.topic = &world->topic,
		.key_hash = 100 + (uint64_t)seq,
		.keyed = true,
		.sent = true,
	};

	assert_int_equal(holds_set(&world->holds, event.key_hash, seq, false), 0);
	return event;
}

static struct producer *unconnected(void)
{
	struct setting settings[] = {
		{ .name = TEXT("bootstrap.servers"), .value = TEXT("127.0.0.1:1") },
		{ .name = TEXT("group.id"), .value = TEXT("billing") },
	};
	char *topics[] = { TEXT("orders") };
	const struct config config = { .kafka = { settings, 2 }, .kafka_topics = { topics, 1 } };
	struct producer *producer = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(producer_new(&producer, &config, PRODUCER_OUTBOX_SINGLE, NULL, &err), 0);
	return producer;
}

static struct producer *busy_producer(struct produce_result *answer)
{
	const struct outgoing record = { .topic = "orders", .headers = producer_headers_new() };
	struct producer *producer = unconnected();

	producer_send(producer, &record, answer);
	assert_int_equal(answer->outcome, PRODUCE_OPEN);
	return producer;
}

static void add_stall(struct world *world, const struct flight_event *event, int64_t left_ms)
{
	struct stall stall = {
		.events = malloc(sizeof(*event)),
		.count = 1,
		.since_ms = clock_now_ms(),
		.until_ms = clock_now_ms() + left_ms,
	};

	assert_non_null(stall.events);
	stall.events[0] = *event;
	stall.producer = busy_producer(&stall.events[0].answer);
	stalls_add(&world->flight.stalls, &stall);
}

static int count_given(void *arg, const struct flight_event *event)
{
	assert_int_equal(event->answer.outcome, PRODUCE_OPEN);
	(*(int *)arg)++;
	return 0;
}

static void nothing_of_a_topic_is_sent_as_soon_as_it_is_in_a_stall(void **state)
{
	struct world *world = *state;
	struct flight_event event = head_of_key(world, 1);

	add_stall(world, &event, 60000);
	assert_int_equal(world->topic.stalled, 1);
	event.sent = false;
	world->flight.kind = FLIGHT_DUE;
	decisions_obey_holds(&world->flight, &event);
	assert_true(event.decided);
	assert_int_equal(event.result.outcome, RELAY_RETRY);
}

/* A parked head would be tried again by nobody, and its key would wait for ever. */
static void heads_of_keys_that_get_no_answer_are_all_tried_again(void **state)
{
	struct world *world = *state;
	struct flight_event first = head_of_key(world, 1);
	struct flight_event second = head_of_key(world, 2);
	struct flight_event third = { .seq = 3, .topic = &world->topic };
	struct err err = ERR_INIT;

	assert_int_equal(decisions_late_answer(&world->flight, &first, &err), 0);
	assert_int_equal(first.result.outcome, RELAY_RETRY);
	assert_int_equal(holds_get(&world->holds, TOPIC_HASH).head, 1);
	assert_int_equal(decisions_late_answer(&world->flight, &second, &err), 0);
	assert_int_equal(second.result.outcome, RELAY_RETRY);
	assert_true(second.result.delay_ms > 0);
	assert_int_equal(decisions_late_answer(&world->flight, &third, &err), 0);
	assert_int_equal(third.result.outcome, RELAY_PARK);
}

static void a_stall_that_is_over_makes_room_before_its_events_are_recorded(void **state)
{
	struct world *world = *state;
	const struct flight_event event = head_of_key(world, 1);
	struct stalls *stalls = &world->flight.stalls;
	int given = 0;

	for (int i = 0; i < STALLS_MOST; i++) {
		assert_true(stalls_have_room(stalls));
		add_stall(world, &event, i == 0 ? 0 : 60000);
	}
	assert_false(stalls_have_room(stalls));
	stalls_end_over(stalls);
	assert_true(stalls_have_room(stalls));
	assert_int_equal(world->topic.stalled, 1);
	assert_int_equal(stalls_poll(stalls, count_given, &given), 0);
	assert_int_equal(given, 1);
	assert_int_equal(stalls->count, STALLS_MOST - 1);
}

static void the_age_of_stalls_is_that_of_the_oldest(void **state)
{
	struct world *world = *state;
	const struct flight_event event = head_of_key(world, 1);
	struct stalls *stalls = &world->flight.stalls;

	assert_true(stalls_age_ms(stalls) == INT64_MAX);
	add_stall(world, &event, 60000);
	stalls->items[0].since_ms -= 5000;
	add_stall(world, &event, 60000);
	assert_in_range(stalls_age_ms(stalls), 5000, 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			nothing_of_a_topic_is_sent_as_soon_as_it_is_in_a_stall, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			heads_of_keys_that_get_no_answer_are_all_tried_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_stall_that_is_over_makes_room_before_its_events_are_recorded, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			the_age_of_stalls_is_that_of_the_oldest, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
