/* Settings of librdkafka: defaults of inboxd, settings of the user, and settings that inboxd
 * controls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#include "ingest/kafka/consumer_conf.h"

#define AHEAD         "queued.max.messages.kbytes"
#define TEXT(literal) ((char[]){ literal })
#define SETTING(key, text)                                                                         \
	{                                                                                          \
		.name = TEXT(key), .value = TEXT(text)                                             \
	}
#define NEEDED SETTING("bootstrap.servers", "broker:9092"), SETTING("group.id", "billing")

/* The value of a setting of librdkafka, with these settings of the user. */
static const char *value_of(const char *name, struct setting *settings, size_t count)
{
	static char value[64];
	char topic[] = "orders";
	char *topics[] = { topic };
	struct config config = {
		.kafka = { settings, count },
		.kafka_topics = { topics, 1 },
	};
	struct err err = ERR_INIT;
	rd_kafka_conf_t *conf = NULL;
	size_t size = sizeof(value);

	assert_int_equal(consumer_conf_new(&conf, &config, &err), 0);
	assert_int_equal(rd_kafka_conf_get(conf, name, value, &size), RD_KAFKA_CONF_OK);
	rd_kafka_conf_destroy(conf);
	return value;
}

static void the_fetch_queue_is_small(void **state)
{
	struct setting settings[] = { NEEDED };

	(void)state;
	assert_string_equal(value_of(AHEAD, settings, 2), "2048");
}

static void the_fetch_queue_is_larger_for_follower_replicas(void **state)
{
	struct setting settings[] = { NEEDED, SETTING("client.rack", "a") };

	(void)state;
	assert_string_equal(
		value_of(AHEAD, settings, 3), prefetch_has_backoff() ? "2048" : "65536");
}

static void the_user_can_set_the_fetch_queue(void **state)
{
	struct setting settings[] = { NEEDED, SETTING(AHEAD, "8192") };

	(void)state;
	assert_string_equal(value_of(AHEAD, settings, 3), "8192");
}

static void a_setting_of_inboxd_is_not_the_users(void **state)
{
	struct setting settings[] = { NEEDED };

	(void)state;
	assert_string_equal(value_of("enable.auto.commit", settings, 2), "false");
	assert_string_equal(value_of("enable.partition.eof", settings, 2), "true");
}

static void a_setting_that_inboxd_controls_is_refused(void **state)
{
	struct setting settings[] = { NEEDED, SETTING("enable.auto.commit", "true") };
	char topic[] = "orders";
	char *topics[] = { topic };
	struct config config = { .kafka = { settings, 3 }, .kafka_topics = { topics, 1 } };
	struct err err = ERR_INIT;
	rd_kafka_conf_t *conf = NULL;

	(void)state;
	assert_int_equal(consumer_conf_new(&conf, &config, &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, "kafka.enable.auto.commit"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fetch_queue_is_small),
		cmocka_unit_test(the_fetch_queue_is_larger_for_follower_replicas),
		cmocka_unit_test(the_user_can_set_the_fetch_queue),
		cmocka_unit_test(a_setting_of_inboxd_is_not_the_users),
		cmocka_unit_test(a_setting_that_inboxd_controls_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
