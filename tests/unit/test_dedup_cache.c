/* Duplicates that need no query of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "store/batches/dedup_cache.h"

static int make(void **state)
{
	return dedup_cache_new((struct dedup_cache **)state, NULL);
}

static int drop(void **state)
{
	dedup_cache_free(*state);
	return 0;
}

static struct message event(const char *source, const char *id, const char *payload)
{
	struct message message = { .source = source, .event_id = id, .consumer = "" };

	if (payload != NULL)
		message.payload = (struct bytes){ payload, strlen(payload) };
	(void)snprintf((char *)message.digest, sizeof(message.digest), "%s",
		payload == NULL ? "" : payload);
	return message;
}

static void add(struct dedup_cache *recent, const char *source, const char *id, const char *payload)
{
	const struct message message = event(source, id, payload);

	dedup_cache_add(recent, &message);
}

static bool has(
	const struct dedup_cache *recent, const char *source, const char *id, const char *payload)
{
	const struct message message = event(source, id, payload);

	return dedup_cache_has(recent, &message);
}

static void an_event_of_another_consumer_is_not_found(void **state)
{
	struct message message = event("shop", "a", "1");

	add(*state, "shop", "a", "1");
	message.consumer = "billing";
	assert_false(dedup_cache_has(*state, &message));
	dedup_cache_add(*state, &message);
	assert_true(dedup_cache_has(*state, &message));
	message.consumer = "search";
	assert_false(dedup_cache_has(*state, &message));
}

static void the_same_event_is_found(void **state)
{
	add(*state, "shop", "a", "1");
	assert_true(has(*state, "shop", "a", "1"));
}

static void an_event_with_another_payload_is_not_found(void **state)
{
	add(*state, "shop", "a", "1");
	assert_false(has(*state, "shop", "a", "2"));
	assert_false(has(*state, "shop", "a", ""));
	assert_false(has(*state, "shop", "a", NULL));
}

static void an_event_with_another_id_or_source_is_not_found(void **state)
{
	add(*state, "shop", "a", "1");
	assert_false(has(*state, "shop", "b", "1"));
	assert_false(has(*state, "mall", "a", "1"));
	assert_false(has(*state, "a", "shop", "1"));
}

static void the_last_payload_of_an_event_counts(void **state)
{
	add(*state, "shop", "a", "1");
	add(*state, "shop", "a", "2");
	assert_false(has(*state, "shop", "a", "1"));
	assert_true(has(*state, "shop", "a", "2"));
}

static void add_numbers(struct dedup_cache *recent, int count)
{
	char id[16];

	for (int i = 0; i < count; i++) {
		(void)snprintf(id, sizeof(id), "%d", i);
		add(recent, "shop", id, "1");
	}
}

static int count_known(const struct dedup_cache *recent, int from, int to)
{
	char id[16];
	int known = 0;

	for (int i = from; i < to; i++) {
		(void)snprintf(id, sizeof(id), "%d", i);
		known += has(recent, "shop", id, "1");
	}
	return known;
}

static void adding_an_event_again_uses_no_more_memory(void **state)
{
	add_numbers(*state, 2000);
	for (int i = 0; i < 10; i++)
		add_numbers(*state, 200);
	assert_int_equal(count_known(*state, 0, 2000), 2000);
}

static void a_tombstone_is_not_an_empty_payload(void **state)
{
	add(*state, "shop", "a", NULL);
	assert_true(has(*state, "shop", "a", NULL));
	assert_false(has(*state, "shop", "a", ""));
}

static void thousands_of_events_are_found(void **state)
{
	add_numbers(*state, 40000);
	assert_true(count_known(*state, 30000, 40000) > 9900);
}

static void the_oldest_are_forgotten_first(void **state)
{
	add(*state, "shop", "old", "1");
	add_numbers(*state, 200000);
	assert_false(has(*state, "shop", "old", "1"));
	assert_true(has(*state, "shop", "199999", "1"));
}

static void everything_can_be_forgotten(void **state)
{
	add(*state, "shop", "a", "1");
	dedup_cache_forget(*state);
	assert_false(has(*state, "shop", "a", "1"));
}

static void without_memory_there_is_no_cache(void **state)
{
	struct dedup_cache *recent = NULL;

	(void)state;
	alloc_fail_at(1);
	assert_int_equal(dedup_cache_new(&recent, NULL), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_null(recent);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_same_event_is_found),
		TEST(an_event_of_another_consumer_is_not_found),
		TEST(an_event_with_another_payload_is_not_found),
		TEST(an_event_with_another_id_or_source_is_not_found),
		TEST(the_last_payload_of_an_event_counts),
		TEST(adding_an_event_again_uses_no_more_memory),
		TEST(a_tombstone_is_not_an_empty_payload),
		TEST(thousands_of_events_are_found),
		TEST(the_oldest_are_forgotten_first),
		TEST(everything_can_be_forgotten),
		cmocka_unit_test(without_memory_there_is_no_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
