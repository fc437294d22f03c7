/* Settings of librdkafka: defaults of inboxd, settings of the user, and settings that inboxd
 * controls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#include "base/cleanup.h"
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

/* What the first line, or one of the others, says about a setting that librdkafka does not know. */
static const struct {
	const char *name;
	const char *says;
} unknown[] = {
	{ "group.protocol", "needs librdkafka 2.4; this inboxd has " },
	{ "group.remote.assignor", "needs librdkafka 2.4; " },
	{ "fetch.queue.backoff.ms", "needs librdkafka 2.2; " },
	{ "metadata.recovery.strategy", "needs librdkafka 2.10; " },
	{ "https.ca.location", "needs librdkafka 2.11; " },
	{ "sasl.oauthbearer.grant.type", "needs librdkafka 2.11; " },
	{ "sasl.oauthbearer.client.credentials.client.id", "needs librdkafka 2.11; " },
	{ "sasl.oauthbearer.assertion.algorithm", "needs librdkafka 2.11; " },
	{ "sasl.oauthbearer.metadata.authentication.type", "needs librdkafka 2.12; " },
	{ "oauth_token_fil", "did you mean \"oauth_token_file\"?" },
	{ "oauth.token.command", "did you mean \"oauth_token_command\"?" },
	{ "sesion.timeout.ms", "did you mean \"session.timeout.ms\"?" },
	{ "linger", "No such configuration property" },
	{ "group.protocols", "No such configuration property" },
};

static bool is_known_here(const char *name)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	bool known = rd_kafka_conf_set(conf, name, "", NULL, 0) != RD_KAFKA_CONF_UNKNOWN;

	rd_kafka_conf_destroy(conf);
	return known;
}

static void each_setting_that_librdkafka_does_not_know_is_explained(void **state)
{
	enum { COUNT = sizeof(unknown) / sizeof(unknown[0]) };
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct setting settings[COUNT];
	char names[COUNT][64];
	char value[] = "x";
	struct config config = { .kafka = { settings, 0 } };
	struct err err = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		if (is_known_here(unknown[i].name))
			continue;
		(void)snprintf(names[i], sizeof(names[i]), "%s", unknown[i].name);
		settings[config.kafka.count++] =
			(struct setting){ .name = names[i], .value = value };
	}
	assert_true(config.kafka.count >= 3);
	assert_int_equal(consumer_conf_check(&config, &text, &err), FAULT_CONFIG);
	buf_addf(&text, "%s\n", err.text);
	for (size_t i = 0; i < COUNT; i++) {
		char line[200];
		const char *found;

		if (is_known_here(unknown[i].name))
			continue;
		(void)snprintf(line, sizeof(line), "kafka.%s: ", unknown[i].name);
		found = strstr(buf_str(&text), line);
		assert_non_null(found);
		(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(found, "\n"), found);
		if (strstr(line, unknown[i].says) == NULL)
			fail_msg("%s", line);
	}
}

static void every_setting_that_librdkafka_knows_passes(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct setting settings[] = { NEEDED, SETTING("session.timeout.ms", "20000") };
	struct config config = { .kafka = { settings, 3 } };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(consumer_conf_check(&config, &text, &err), 0);
	assert_int_equal(text.length, 0);
}

/* librdkafka takes the number at the beginning of a text: 45 ms of "45s". */
static void a_number_with_a_unit_is_refused(void **state)
{
	static const char *const accepted[] = { "0x1388", "5000 ", "5000.0", "5000" };
	struct setting settings[] = { NEEDED, SETTING("session.timeout.ms", "45s"),
		SETTING("fetch.max.bytes", "10MiB"), SETTING("message.timeout.ms", "1.5"),
		SETTING("client.id", "9 lives"), SETTING("sasl.password", "1 hush") };
	struct config config = { .kafka = { settings, 7 } };
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(consumer_conf_check(&config, &text, &err), FAULT_CONFIG);
	assert_string_equal(err.text,
		"kafka.session.timeout.ms: librdkafka takes only the 45 of \"45s\"; write a whole "
		"number without a unit");
	assert_string_equal(buf_str(&text),
		"kafka.fetch.max.bytes: librdkafka takes only the 10 of \"10MiB\"; write a whole "
		"number without a unit\n"
		"kafka.message.timeout.ms: librdkafka takes only the 1 of \"1.5\"; write a whole "
		"number without a unit\n");
	config.kafka.count = 3;
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		CLEANUP(freep) char *value = strdup(accepted[i]);

		settings[2].value = value;
		assert_int_equal(consumer_conf_check(&config, &text, &err), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fetch_queue_is_small),
		cmocka_unit_test(the_fetch_queue_is_larger_for_follower_replicas),
		cmocka_unit_test(the_user_can_set_the_fetch_queue),
		cmocka_unit_test(a_setting_of_inboxd_is_not_the_users),
		cmocka_unit_test(a_setting_that_inboxd_controls_is_refused),
		cmocka_unit_test(each_setting_that_librdkafka_does_not_know_is_explained),
		cmocka_unit_test(every_setting_that_librdkafka_knows_passes),
		cmocka_unit_test(a_number_with_a_unit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
