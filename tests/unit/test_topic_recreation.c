/* What is read out of librdkafka's own words: which partition a fetch has failed for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ingest/kafka/topic_recreation.h"

static int set_up(void **state)
{
	static struct topic_recreation recreation;

	topic_recreation_init(&recreation);
	*state = &recreation;
	return 0;
}

static int tear_down(void **state)
{
	topic_recreation_fini(*state);
	return 0;
}

static void a_failed_fetch_is_noted_once(void **state)
{
	const char *text = "[thrd:127.0.0.1:9092/1]: orders.eu [12]: broker unavailable: fetch: "
			   "Broker: Unknown topic or partition";
	rd_kafka_topic_partition_list_t *list;

	topic_recreation_note(*state, "BROKERUA", text);
	topic_recreation_note(*state, "BROKERUA", text);
	list = topic_recreation_take(*state);
	assert_non_null(list);
	assert_int_equal(list->cnt, 1);
	assert_string_equal(list->elems[0].topic, "orders.eu");
	assert_int_equal(list->elems[0].partition, 12);
	rd_kafka_topic_partition_list_destroy(list);
	assert_null(topic_recreation_take(*state));
}

static void a_failed_fetch_is_noted_without_a_thread_name(void **state)
{
	rd_kafka_topic_partition_list_t *list;

	topic_recreation_note(*state, "BROKERUA", "a [0]: broker unavailable: fetch: x");
	list = topic_recreation_take(*state);
	assert_non_null(list);
	assert_string_equal(list->elems[0].topic, "a");
	rd_kafka_topic_partition_list_destroy(list);
}

static void other_log_lines_are_ignored(void **state)
{
	topic_recreation_note(*state, "FETCH", "a [0]: broker unavailable: fetch: x");
	topic_recreation_note(*state, "BROKERUA", "a [0]: broker unavailable: produce: x");
	topic_recreation_note(*state, "BROKERUA", "0]: broker unavailable: fetch: x");
	topic_recreation_note(*state, "BROKERUA", "[0]: broker unavailable: fetch: x");
	topic_recreation_note(*state, "BROKERUA", " [0]: broker unavailable: fetch: x");
	assert_null(topic_recreation_take(*state));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_failed_fetch_is_noted_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_failed_fetch_is_noted_without_a_thread_name, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_log_lines_are_ignored, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
