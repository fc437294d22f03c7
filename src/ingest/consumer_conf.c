#include "ingest/consumer_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/secret.h"
#include "ingest/prefetch.h"

#define KIB             1024LL
#define FETCH_MAX       (4 * KIB * KIB)
#define RECEIVE_MAX     100000000LL /* librdkafka's default */
#define RECEIVE_LIMIT   2147483647LL
#define LOG_LEVEL_DEBUG 7
#define PRODUCED_MORE   (1024 * KIB)
#define PRODUCED_LIMIT  1000000000LL /* librdkafka's */

static void conf_free(rd_kafka_conf_t *conf)
{
	if (conf != NULL)
		rd_kafka_conf_destroy(conf);
}
DEFINE_CLEANUP(rd_kafka_conf_t *, conf_free);

struct option {
	const char *name;
	const char *value;
};

/* What the user may set differently. */
static const struct option defaults[] = {
	{ "client.id", "inboxd" },
	/* A response of the usual 50 MiB would make the prefetch limits below a joke. */
	{ "fetch.max.bytes", "4194304" },
};

/* What everything else rests on: rule G1 is about these. */
static const struct option enforced[] = {
	{ "enable.auto.commit", "false" },
	{ "enable.auto.offset.store", "false" },
	/* The end of a log may lie behind its last record: collect.c wants to hear of it. */
	{ "enable.partition.eof", "true" },
	/* Where to start is our decision (start_offset_policy.h); when librdkafka loses its place it must go on
	 * to a place where a seek is possible, which after `error` it is not. */
	{ "auto.offset.reset", "earliest" },
};

/* The producer's: whatever is confirmed is stored on all replicas in sync, and everything is confirmed or given up within
 * ten seconds. The rest is what idempotence asks for. */
static const struct option enforced_of_producer[] = {
	{ "enable.idempotence", "true" },
	{ "acks", "all" },
	{ "max.in.flight.requests.per.connection", "5" },
	{ "message.send.max.retries", "2147483647" },
	{ "queuing.strategy", "fifo" },
	{ "linger.ms", "1" },
	{ "message.timeout.ms", "10000" },
};

/* Settings that would take away a decision that is ours. */
static const char *const refused[] = {
	"enable.auto.commit",
	"auto.commit.enable",
	"enable.auto.offset.store",
	"enable.partition.eof",
	"auto.commit.interval.ms",
	"offset.store.method",
	"offset.store.path",
	"log.queue",
};

const char *consumer_conf_value(const struct config *config, const char *name, const char *fallback)
{
	for (size_t i = config->kafka.count; i > 0; i--) {
		if (strcmp(config->kafka.items[i - 1].name, name) == 0)
			return config->kafka.items[i - 1].value;
	}
	return fallback;
}

static int set(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	char words[512];

	if (rd_kafka_conf_set(conf, name, value, words, sizeof(words)) == RD_KAFKA_CONF_OK)
		return 0;
	return err_set(err, FAULT_CONFIG, "kafka.%s: %s", name, words);
}

static int set_number(rd_kafka_conf_t *conf, const char *name, int64_t value, struct err *err)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%lld", (long long)value);
	return set(conf, name, text, err);
}

static int set_table(
	rd_kafka_conf_t *conf, const struct option *table, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (set(conf, table[i].name, table[i].value, err) < 0)
			return FAULT_CONFIG;
	}
	return 0;
}

/* With client.rack records come from brokers that prefetch.c does not wake: then librdkafka's own default. */
static int set_prefetch(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	bool little_will_do =
		prefetch_has_backoff() || *consumer_conf_value(config, "client.rack", "") == '\0';

	if (little_will_do && set_number(conf, "queued.max.messages.kbytes", PREFETCH_KIB, err) < 0)
		return FAULT_CONFIG;
	return prefetch_has_backoff() ? set_number(conf, "fetch.queue.backoff.ms", 10, err) : 0;
}

/* A record as large as ingest.max_payload must come through, or its partition stands still. */
static int set_receive(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	int64_t needed = 2 * config->ingest.max_payload + FETCH_MAX;

	if (needed < RECEIVE_MAX)
		needed = RECEIVE_MAX;
	if (needed > RECEIVE_LIMIT)
		needed = RECEIVE_LIMIT;
	return set_number(conf, "receive.message.max.bytes", needed, err);
}

static int refuse(const char *name, struct err *err)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (strcmp(refused[i], name) == 0)
			return err_set(err, FAULT_CONFIG,
				"kafka.%s: inboxd decides this itself; remove the setting", name);
	}
	return 0;
}

static int set_users(rd_kafka_conf_t *conf, const struct settings *settings, struct err *err)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;

	for (size_t i = 0; i < settings->count; i++) {
		const char *value = secret_now(&settings->items[i], &scratch);

		if (value == NULL)
			return err_memory(err);
		if (refuse(settings->items[i].name, err) < 0 ||
			set(conf, settings->items[i].name, value, err) < 0)
			return FAULT_CONFIG;
	}
	return 0;
}

/* Warnings about a lost place in the log, and what topic_recreation.h listens for, must reach consumer.c whatever the
 * user wants to see. */
static int set_debug(rd_kafka_conf_t *conf, struct err *err)
{
	char theirs[512] = "";
	char ours[sizeof(theirs) + sizeof(",topic")];
	size_t size = sizeof(theirs);

	if (rd_kafka_conf_get(conf, "debug", theirs, &size) != RD_KAFKA_CONF_OK)
		theirs[0] = '\0';
	(void)snprintf(ours, sizeof(ours), "%s%stopic", theirs, theirs[0] == '\0' ? "" : ",");
	if (set(conf, "debug", ours, err) < 0)
		return FAULT_CONFIG;
	return set_number(conf, "log_level", LOG_LEVEL_DEBUG, err);
}

/* A message that was consumed can be produced, headers of ours included; the topic may say no. */
static int set_largest(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	int64_t largest = config->ingest.max_payload + PRODUCED_MORE;

	return set_number(conf, "message.max.bytes",
		largest < PRODUCED_LIMIT ? largest : PRODUCED_LIMIT, err);
}

int producer_conf_new(rd_kafka_conf_t **out, const struct config *config, struct err *err)
{
	CLEANUP(conf_freep) rd_kafka_conf_t *conf = rd_kafka_conf_new();

	if (set(conf, "client.id", "inboxd", err) < 0 || set_largest(conf, config, err) < 0 ||
		set_users(conf, &config->kafka, err) < 0 ||
		set_table(conf, enforced_of_producer,
			sizeof(enforced_of_producer) / sizeof(enforced_of_producer[0]), err) < 0)
		return FAULT_CONFIG;
	*out = conf;
	conf = NULL;
	return 0;
}

static int check_needed(const struct config *config, struct err *err)
{
	if (*consumer_conf_value(config, "bootstrap.servers",
		    consumer_conf_value(config, "metadata.broker.list", "")) == '\0')
		return err_set(err, FAULT_CONFIG,
			"kafka.bootstrap.servers is not set: name at least one broker as "
			"host:port");
	if (*consumer_conf_value(config, "group.id", "") == '\0')
		return err_set(err, FAULT_CONFIG,
			"kafka.group.id is not set: name the consumer group of this service");
	if (config->kafka_topics.count == 0)
		return err_set(err, FAULT_CONFIG,
			"kafka.topics is empty: list the topics this service consumes");
	return 0;
}

/* With KIP-848 the broker assigns, and a strategy of ours is a mistake. */
static int set_strategy(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	if (strcmp(consumer_conf_value(config, "group.protocol", "classic"), "consumer") == 0)
		return 0;
	return set(conf, "partition.assignment.strategy", "cooperative-sticky", err);
}

int consumer_conf_new(rd_kafka_conf_t **out, const struct config *config, struct err *err)
{
	CLEANUP(conf_freep) rd_kafka_conf_t *conf = rd_kafka_conf_new();

	if (check_needed(config, err) < 0 ||
		set_table(conf, defaults, sizeof(defaults) / sizeof(defaults[0]), err) < 0 ||
		set_strategy(conf, config, err) < 0 || set_prefetch(conf, config, err) < 0 ||
		set_receive(conf, config, err) < 0 || set_users(conf, &config->kafka, err) < 0 ||
		set_debug(conf, err) < 0 ||
		set_table(conf, enforced, sizeof(enforced) / sizeof(enforced[0]), err) < 0)
		return FAULT_CONFIG;
	*out = conf;
	conf = NULL;
	return 0;
}
