/* Which topics the relay remembers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/time/clock.h"
#include "ingest/relay/relay_topics.h"

#define MANY UINT64_C(2000)

static int set_up(void **state)
{
	static struct relay_topics topics;

	topics = (struct relay_topics){ .items = NULL };
	*state = &topics;
	return 0;
}

static int tear_down(void **state)
{
	relay_topics_fini(*state);
	return 0;
}

/* The hashes are not in ascending order. */
static struct relay_topic *get(struct relay_topics *topics, uint64_t number)
{
	char name[32];
	struct relay_topic *topic;

	(void)snprintf(name, sizeof(name), "orders.%d", (int)number);
	topic = relay_topics_get(topics, name, number * 0x9e3779b97f4a7c15u);
	assert_non_null(topic);
	assert_string_equal(topic->name, name);
	return topic;
}

/* Every `part`-th one was checked just now. */
static void fill(struct relay_topics *topics, uint64_t count, uint64_t part)
{
	for (uint64_t number = 0; number < count; number++)
		get(topics, number)->checked_ms = number % part == 0 ? clock_now_ms() : 0;
}

static void many_topics_are_forgotten_unless_they_are_used(void **state)
{
	struct relay_topics *topics = *state;
	const struct relay_topic *used;

	fill(topics, MANY, 10);
	used = get(topics, 990);
	assert_true(relay_topics_tidy(topics));
	assert_int_equal(topics->count, MANY / 10);
	for (uint64_t number = 0; number < MANY; number += 10)
		assert_int_not_equal(get(topics, number)->checked_ms, 0);
	assert_int_equal(topics->count, MANY / 10);
	assert_ptr_equal(get(topics, 990), used);
	assert_int_equal(get(topics, 991)->checked_ms, 0);
}

static void few_topics_are_never_forgotten(void **state)
{
	struct relay_topics *topics = *state;

	fill(topics, 1000, MANY);
	assert_false(relay_topics_tidy(topics));
	assert_int_equal(topics->count, 1000);
}

static void topics_in_use_are_looked_through_when_they_have_doubled(void **state)
{
	struct relay_topics *topics = *state;

	fill(topics, MANY, 1);
	assert_false(relay_topics_tidy(topics));
	assert_int_equal(topics->count, MANY);
	for (uint64_t number = 0; number < MANY; number++)
		get(topics, number)->checked_ms = 0;
	assert_false(relay_topics_tidy(topics));
	fill(topics, 2 * MANY, 2 * MANY);
	assert_true(relay_topics_tidy(topics));
	assert_int_equal(topics->count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			many_topics_are_forgotten_unless_they_are_used, set_up, tear_down),
		cmocka_unit_test_setup_teardown(few_topics_are_never_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			topics_in_use_are_looked_through_when_they_have_doubled, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
