/*
 * Implements consumer_conf.h. The order of the tables decides: `defaults` come before the user's
 * settings and can be overridden; `enforced` come after them. A user's setting in `refused` is an
 * error, because a silent override would surprise the user.
 */
#include "ingest/kafka/consumer_conf.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/secret.h"
#include "config/show.h"
#include "config/sources/keys.h"
#include "config/sources/nearest.h"
#include "ingest/ingest.h"

#define KIB                  1024LL
#define FETCH_MAX            (4 * KIB * KIB)
#define RECEIVE_MAX          100000000LL /* the default of librdkafka */
#define RECEIVE_LIMIT        2147483647LL
#define LOG_LEVEL_DEBUG      7
#define PRODUCED_MORE        (1024 * KIB)
#define VERSION_WITH_BACKOFF 0x020200ff
/* Earlier versions accept the settings of `brokers_decide`, and do not use them. */
#define VERSION_THAT_REFUSES 0x020a00ff
#define PRODUCED_LIMIT       1000000000LL /* the limit of librdkafka */
#define LARGEST_EVENT                                                                              \
	(33 * KIB * KIB) /* 16 MiB, which base64 in a structured event makes a third larger */

static void conf_free(rd_kafka_conf_t *conf)
{
	if (conf != NULL)
		rd_kafka_conf_destroy(conf);
}
DEFINE_CLEANUP(rd_kafka_conf_t *, conf_free);

struct preset {
	const char *name;
	const char *value;
};

/* Values that the user may override. */
static const struct preset defaults[] = {
	{ "client.id", "inboxd" },
	/* One response of the default 50 MiB would exceed the prefetch limit many times. */
	{ "fetch.max.bytes", "4194304" },
	{ NULL, NULL },
};

/* Values that guarantee G1 depends on: only inboxd commits offsets. */
static const struct preset enforced[] = {
	{ "enable.auto.commit", "false" },
	{ "enable.auto.offset.store", "false" },
	/* The end of a log may lie behind its last record; collect.c needs the event to pass it. */
	{ "enable.partition.eof", "true" },
	/* start_offset_policy.h decides where reading starts. When librdkafka loses its offset, it
	 * must continue at an offset where a seek is possible; after `error` it is not possible. */
	{ "auto.offset.reset", "earliest" },
	{ NULL, NULL },
};

/* For every producer: a confirmed record is on all in-sync replicas. Idempotence requires the other values. */
static const struct preset enforced_of_producer[] = {
	{ "enable.idempotence", "true" },
	{ "acks", "all" },
	{ "max.in.flight.requests.per.connection", "5" },
	{ "message.send.max.retries", "2147483647" },
	{ "queuing.strategy", "fifo" },
	{ "linger.ms", "1" },
	{ NULL, NULL },
};

/* More of them for each use. */
#define OUTBOX_OPTIONS                                                                             \
	{ "batch.size", TEXT_OF(PRODUCER_BATCH_BYTES) }, { "batch.num.messages", "10000" },        \
		{ "queue.buffering.max.messages", "1000000" },                                     \
	{                                                                                          \
		"queue.buffering.max.kbytes", "2097151"                                            \
	}
#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

static const struct preset enforced_of_use[PRODUCER_USES][8] = {
	[PRODUCER_DEAD_TOPIC] = { { "message.timeout.ms", "10000" }, { NULL, NULL } },
	[PRODUCER_OUTBOX] = { OUTBOX_OPTIONS, { "message.timeout.ms", "0" },
		{ "enable.gapless.guarantee", "true" }, { NULL, NULL } },
	[PRODUCER_OUTBOX_SINGLE] = { OUTBOX_OPTIONS, { "message.timeout.ms", "0" },
		{ NULL, NULL } },
	/* message.timeout.ms becomes that of the transaction, which is aborted as a whole */
	[PRODUCER_OUTBOX_TRANSACTIONS] = { OUTBOX_OPTIONS, { "transaction.timeout.ms", "60000" },
		{ NULL, NULL } },
};

/* Settings that would take over a decision of inboxd. */
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

/* Settings that librdkafka refuses with `group.protocol: consumer`. Its own text is about the first one only. */
static const struct {
	const char *name;
	const char *instead;
} brokers_decide[] = {
	{ "session.timeout.ms", "the brokers' group.consumer.session.timeout.ms decides" },
	{ "heartbeat.interval.ms", "the brokers' group.consumer.heartbeat.interval.ms decides" },
	{ "partition.assignment.strategy",
		"the brokers assign the partitions (kafka.group.remote.assignor)" },
	{ "group.protocol.type", "it has no meaning there" },
};

const char *consumer_conf_value(const struct config *config, const char *name, const char *fallback)
{
	for (size_t i = config->kafka.count; i > 0; i--) {
		if (strcmp(config->kafka.items[i - 1].name, name) == 0)
			return config->kafka.items[i - 1].value;
	}
	return fallback;
}

bool consumer_conf_brokers_assign(const struct config *config)
{
	return strcmp(consumer_conf_value(config, "group.protocol", "classic"), "consumer") == 0;
}

/* A name that librdkafka does not know. */
static int unknown_name(const char *name, const char *words, struct err *err)
{
	const char *since = key_first_version(name);
	char hint[NEAREST_HINT_BYTES];
	struct nearest nearest;
	char **known = NULL;

	if (since != NULL)
		return err_set(err, FAULT_CONFIG,
			"kafka.%s: needs librdkafka %s; this inboxd has %s", name, since,
			rd_kafka_version_str());
	nearest_start(&nearest, name);
	key_offer_own(&nearest, "kafka");
	if (ingest_option_names(&known, NULL) == 0) {
		for (size_t i = 0; known[i] != NULL; i++)
			nearest_offer(&nearest, known[i]);
	}
	nearest_hint(&nearest, hint);
	ingest_names_free(known);
	return err_set(err, FAULT_CONFIG, "kafka.%s: %s%s", name, words, hint);
}

/* The text of librdkafka has the range of a number that is too large, but not what is accepted in place of a text. */
static int invalid_value(const char *name, const char *words, struct err *err)
{
	CLEANUP(freep) char *accepted = NULL;

	if (strncmp(words, "Invalid value", strlen("Invalid value")) == 0)
		accepted = ingest_option_range(name);
	return err_set(err, FAULT_CONFIG, "kafka.%s: %s%s%s", name, words,
		accepted == NULL ? "" : "; librdkafka accepts ", accepted == NULL ? "" : accepted);
}

static int set(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	char words[512];

	switch (rd_kafka_conf_set(conf, name, value, words, sizeof(words))) {
	case RD_KAFKA_CONF_OK:
		return 0;
	case RD_KAFKA_CONF_UNKNOWN:
		return unknown_name(name, words, err);
	default:
		return invalid_value(name, words, err);
	}
}

/* librdkafka takes the number at the beginning of a text, and passes over the rest: "45s" would be 45 milliseconds. Which
 * of its settings are whole numbers is seen in what it has made of the text. */
static int check_whole_number(
	const rd_kafka_conf_t *conf, const char *name, const char *value, struct err *err)
{
	char taken[32] = "";
	size_t size = sizeof(taken);
	char *end;

	if (rd_kafka_conf_get(conf, name, taken, &size) != RD_KAFKA_CONF_OK ||
		size > sizeof(taken) || strcmp(taken, value) == 0 ||
		taken[strspn(taken, "-0123456789")] != '\0')
		return 0;
	(void)strtoll(value, &end, 0);
	if (end == value || end[strspn(end, " \t")] == '\0')
		return 0;
	/* linger.ms is no whole number: "5.0" is read back as "5" */
	if (strtod(value, &end) == strtod(taken, NULL) && *end == '\0')
		return 0;
	return err_set(err, FAULT_CONFIG,
		"kafka.%s: librdkafka takes only the %s of \"%s\"; write a whole number without a "
		"unit",
		name, taken, value);
}

static int set_number(rd_kafka_conf_t *conf, const char *name, int64_t value, struct err *err)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%lld", (long long)value);
	return set(conf, name, text, err);
}

/* The table is ended by a NULL. */
static int set_table(rd_kafka_conf_t *conf, const struct preset *table, struct err *err)
{
	for (size_t i = 0; table[i].name != NULL; i++) {
		if (set(conf, table[i].name, table[i].value, err) < 0)
			return FAULT_CONFIG;
	}
	return 0;
}

bool prefetch_has_backoff(void)
{
	return rd_kafka_version() >= VERSION_WITH_BACKOFF;
}

/* With client.rack, records come from follower brokers, which keep_fetching() of consumer.c does not wake. Then
 * librdkafka's own default applies. */
static int set_prefetch(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	bool little_will_do =
		prefetch_has_backoff() || *consumer_conf_value(config, "client.rack", "") == '\0';

	if (little_will_do && set_number(conf, "queued.max.messages.kbytes", PREFETCH_KIB, err) < 0)
		return FAULT_CONFIG;
	return prefetch_has_backoff() ? set_number(conf, "fetch.queue.backoff.ms", 10, err) : 0;
}

/* A record of the size ingest.max_payload must fit into a response; otherwise its partition would
 * stop. */
static int set_receive(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	int64_t needed = 2 * config->ingest.max_payload + FETCH_MAX;

	if (needed < RECEIVE_MAX)
		needed = RECEIVE_MAX;
	if (needed > RECEIVE_LIMIT)
		needed = RECEIVE_LIMIT;
	return set_number(conf, "receive.message.max.bytes", needed, err);
}

static int refuse(const struct config *config, const char *name, struct err *err)
{
	bool theirs =
		consumer_conf_brokers_assign(config) && rd_kafka_version() >= VERSION_THAT_REFUSES;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (strcmp(refused[i], name) == 0)
			return err_set(err, FAULT_CONFIG,
				"kafka.%s: inboxd sets this itself; remove the setting", name);
	}
	for (size_t i = 0; theirs && i < sizeof(brokers_decide) / sizeof(brokers_decide[0]); i++) {
		if (strcmp(brokers_decide[i].name, name) == 0)
			return err_set(err, FAULT_CONFIG,
				"kafka.%s: kafka.group.protocol is \"consumer\", which refuses "
				"this setting, because %s; remove it",
				name, brokers_decide[i].instead);
	}
	return 0;
}

/* Whether an error about this setting shows a secret. The text about a name that librdkafka does not know has no value. */
static bool shows_secret(const rd_kafka_conf_t *conf, const struct setting *setting,
	const char *value, const struct err *err)
{
	size_t size = 0;

	return (setting->file != NULL || config_is_secret(setting->name, value)) &&
	       *value != '\0' && strstr(err->text, value) != NULL &&
	       rd_kafka_conf_get(conf, setting->name, NULL, &size) != RD_KAFKA_CONF_UNKNOWN;
}

static int set_user(rd_kafka_conf_t *conf, const struct config *config,
	const struct setting *setting, struct err *err)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	const char *value = secret_now(setting, &scratch);
	int r;

	if (value == NULL)
		return err_memory(err);
	if (refuse(config, setting->name, err) < 0)
		return FAULT_CONFIG;
	r = set(conf, setting->name, value, err);
	if (r == 0)
		r = check_whole_number(conf, setting->name, value, err);
	if (r < 0 && shows_secret(conf, setting, value, err))
		return err_set(err, FAULT_CONFIG, "kafka.%s: librdkafka refuses the value%s%s",
			setting->name, setting->file == NULL ? "" : " in ",
			setting->file == NULL ? "" : setting->file);
	return r;
}

static int set_users(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < config->kafka.count && r == 0; i++)
		r = set_user(conf, config, &config->kafka.items[i], err);
	return r < 0 ? FAULT_CONFIG : 0;
}

int consumer_conf_check(const struct config *config, struct buf *report, struct err *err)
{
	CLEANUP(conf_freep) rd_kafka_conf_t *conf = rd_kafka_conf_new();
	int first = 0;

	for (size_t i = 0; i < config->kafka.count; i++) {
		struct err one = ERR_INIT;

		if (set_user(conf, config, &config->kafka.items[i], &one) == 0)
			continue;
		if (first != 0) {
			buf_addf(report, "%s\n", one.text);
			continue;
		}
		*err = one;
		first = one.fault;
	}
	return first;
}

/* consumer.c reads two kinds of debug lines: resets of an offset, and those of topic_recreation.h.
 * Both must be enabled, whatever log level the user has chosen. */
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

/* Java's default partitioner, so that the events of a key stay in their partition when a service changes from or to a
 * Java producer. */
static int set_partitioner(rd_kafka_conf_t *conf, enum producer_use use, struct err *err)
{
	return use == PRODUCER_DEAD_TOPIC ? 0 : set(conf, "partitioner", "murmur2_random", err);
}

/* One name for each schema, because its group is bound to it. The brokers fence a producer when another one with the
 * same name begins. */
static int set_transactions(
	rd_kafka_conf_t *conf, const struct config *config, enum producer_use use, struct err *err)
{
	char name[1024];

	if (use != PRODUCER_OUTBOX_TRANSACTIONS)
		return 0;
	(void)snprintf(name, sizeof(name), "inboxd-outbox.%s.%s", config->inbox.schema,
		consumer_conf_value(config, "group.id", ""));
	return set(conf, "transactional.id", name, err);
}

int producer_conf_new(
	rd_kafka_conf_t **out, const struct config *config, enum producer_use use, struct err *err)
{
	CLEANUP(conf_freep) rd_kafka_conf_t *conf = rd_kafka_conf_new();
	/* Every consumed message and every event can be produced, including inboxd's headers; the topic itself may
	 * still refuse it. */
	int64_t largest = config->ingest.max_payload + PRODUCED_MORE;

	if (use != PRODUCER_DEAD_TOPIC && largest < LARGEST_EVENT)
		largest = LARGEST_EVENT;
	if (largest > PRODUCED_LIMIT)
		largest = PRODUCED_LIMIT;
	if (set(conf, "client.id", "inboxd", err) < 0 ||
		set_number(conf, "message.max.bytes", largest, err) < 0 ||
		set_partitioner(conf, use, err) < 0 || set_users(conf, config, err) < 0 ||
		set_table(conf, enforced_of_producer, err) < 0 ||
		set_table(conf, enforced_of_use[use], err) < 0 ||
		set_transactions(conf, config, use, err) < 0)
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
	if (config->kafka_topics.count == 0 && !config_sends_only(config))
		return err_set(err, FAULT_CONFIG,
			"kafka.topics is empty: list the topics this service consumes");
	return 0;
}

int consumer_conf_new(rd_kafka_conf_t **out, const struct config *config, struct err *err)
{
	CLEANUP(conf_freep) rd_kafka_conf_t *conf = rd_kafka_conf_new();
	/* with KIP-848, librdkafka rejects a client strategy */
	bool broker_assigns = consumer_conf_brokers_assign(config);

	if (check_needed(config, err) < 0 || set_table(conf, defaults, err) < 0 ||
		(!broker_assigns && set(conf, "partition.assignment.strategy", "cooperative-sticky",
					    err) < 0) ||
		set_prefetch(conf, config, err) < 0 || set_receive(conf, config, err) < 0 ||
		set_users(conf, config, err) < 0 || set_debug(conf, err) < 0 ||
		set_table(conf, enforced, err) < 0)
		return FAULT_CONFIG;
	*out = conf;
	conf = NULL;
	return 0;
}
