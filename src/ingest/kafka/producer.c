/*
 * Implements producer.h.
 */
#include "ingest/kafka/producer.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/threads/progress.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/client.h"
#include "ingest/kafka/throttle.h"
#include "ingest/kafka/tls_errors.h"

#define ANSWER_MS      1000
#define LIMIT_MS       3000
#define BEGIN_MS       10000
/* What a topic accepts at least, if its limit is unknown: below Kafka's default, 1048588. */
#define UNKNOWN_LIMIT  1000000
#define WORDS_BYTES    512
#define SYSLOG_ERROR   3
#define SYSLOG_WARNING 4

struct producer {
	struct tls_errors trust; /* must be first: see tls_errors_register() */
	rd_kafka_t *kafka;
	const char *client; /* for the log */
	struct throttle throttle;
	size_t open;    /* number of records without a result */
	int leaderless; /* of the topic of the last producer_look() */
	char last_words[WORDS_BYTES];
};

static const char clocks_differ[] =
	"the brokers refuse the time of this host's clock: it differs from theirs by more than "
	"message.timestamp.after.max.ms or message.timestamp.before.max.ms of the topic allows";
static const char invalid_record[] =
	"the brokers refuse the record as invalid (INVALID_RECORD): a compacted topic, for "
	"example, takes no record without a key";

/* From 2.4 on, librdkafka gives this code to the other records of a request that the brokers refuse because of one. Before, each
 * record of the request got the code of that one. Both mean the same: some record of the request is invalid, and each of them is
 * sent alone next. The library may be later than its headers, which therefore may not have the name
 * RD_KAFKA_RESP_ERR__INVALID_DIFFERENT_RECORD. */
#define ANOTHER_IS_INVALID (-138)

static struct produce_result result_of(rd_kafka_resp_err_t code)
{
	switch ((int)code) {
	case RD_KAFKA_RESP_ERR_NO_ERROR:
		return (struct produce_result){ .outcome = PRODUCE_CONFIRMED };
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
		return (struct produce_result){ PRODUCE_REFUSED, rd_kafka_err2str(code), 0, 0,
			false };
	case RD_KAFKA_RESP_ERR_INVALID_RECORD:
	case ANOTHER_IS_INVALID:
		return (struct produce_result){ PRODUCE_REFUSED, invalid_record, 0, 0, false };
	case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP: /* the time of sending: no fault of the record */
		return (struct produce_result){ PRODUCE_FAILED, clocks_differ, 0, 0, true };
	case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
	case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
	case RD_KAFKA_RESP_ERR__FATAL:
	case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
	case RD_KAFKA_RESP_ERR__QUEUE_FULL:
		return (struct produce_result){ PRODUCE_DROPPED, rd_kafka_err2str(code), 0, 0,
			false };
	default:
		return (struct produce_result){ PRODUCE_FAILED, rd_kafka_err2str(code), 0, 0,
			false };
	}
}

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *record, void *opaque)
{
	struct producer *producer = opaque;
	struct produce_result *result = record->_private;

	(void)kafka;
	*result = result_of(record->err);
	result->partition = record->partition;
	result->offset = record->offset;
	producer->open--;
}

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
	struct producer *producer = opaque;

	const char *advice = tls_errors_advice(&producer->trust, (rd_kafka_resp_err_t)code, reason);

	(void)kafka;
	kafka_client_failed((rd_kafka_resp_err_t)code, reason);
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && producer->last_words[0] != '\0')
		return;
	(void)snprintf(producer->last_words, sizeof(producer->last_words), "%s: %s%s%s",
		rd_kafka_err2name((rd_kafka_resp_err_t)code), reason, advice == NULL ? "" : "; ",
		advice == NULL ? "" : advice);
}

static void on_throttle(
	rd_kafka_t *kafka, const char *broker, int32_t id, int delay_ms, void *opaque)
{
	struct producer *producer = opaque;

	(void)kafka;
	(void)id;
	throttle_note(&producer->throttle, broker, delay_ms);
}

/* Runs on threads of librdkafka. CONFWARN lines complain about consumer settings, which come from
 * the same section of the configuration. Errors are reported by the result of each record, and the
 * consumer reports broker failures. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	const struct producer *producer = rd_kafka_opaque(kafka);

	if (level > SYSLOG_WARNING || strcmp(facility, "CONFWARN") == 0 ||
		strcmp(facility, "FAIL") == 0)
		return;
	log_at(level <= SYSLOG_ERROR ? LOG_WARN : LOG_INFO, "kafka",
		LOG_STR("client", producer->client), LOG_STR("facility", facility),
		LOG_STR("text", text));
}

static int begin_transactions(struct producer *producer, struct err *err);

int producer_new(struct producer **out, const struct config *config, enum producer_use use,
	struct metrics *metrics, struct err *err)
{
	struct producer *producer = calloc(1, sizeof(*producer));
	rd_kafka_conf_t *conf = NULL;
	int r;

	if (producer == NULL)
		return err_memory(err);
	producer->client = use == PRODUCER_DEAD_TOPIC ? "dead_topic" : "outbox";
	throttle_init(&producer->throttle, producer->client, metrics);
	r = producer_conf_new(&conf, config, use, err);
	if (r < 0) {
		free(producer);
		return r;
	}
	rd_kafka_conf_set_opaque(conf, producer);
	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_throttle_cb(conf, on_throttle);
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	tls_errors_register(&producer->trust, conf);
	r = kafka_client_new(&producer->kafka, &(struct client_use){ RD_KAFKA_PRODUCER, false },
		conf, config, err);
	if (r < 0) {
		free(producer);
		return r;
	}
	r = use == PRODUCER_OUTBOX_TRANSACTIONS ? begin_transactions(producer, err) : 0;
	if (r != 0) {
		producer_free(producer);
		return r;
	}
	*out = producer;
	return 0;
}

void producer_free(struct producer *producer)
{
	if (producer == NULL)
		return;
	/* Purged records produce no delivery report any more, because nothing polls. */
	(void)rd_kafka_purge(producer->kafka,
		RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
	progress_note(PROGRESS_RESOLVE_MS); /* its threads may wait for the resolver */
	kafka_client_free(producer->kafka);
	free(producer);
}

static int check_topic(rd_kafka_resp_err_t code, const char *topic, struct err *err)
{
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		return PRODUCER_NO_TOPIC;
	(void)err_set(
		err, FAULT_KAFKA, "topic \"%s\" cannot be used: %s", topic, rd_kafka_err2str(code));
	return PRODUCER_BAD_TOPIC;
}

static int count_leaderless(const struct rd_kafka_metadata_topic *topic)
{
	int count = 0;

	for (int i = 0; i < topic->partition_cnt; i++)
		count += topic->partitions[i].leader < 0;
	return count;
}

static int no_answer(struct producer *producer, rd_kafka_resp_err_t code, struct err *err)
{
	broker_bootstrap_again(producer->kafka);
	return err_set(err, FAULT_KAFKA, "no broker answered: %s",
		producer->last_words[0] != '\0' ? producer->last_words : rd_kafka_err2str(code));
}

int producer_cluster_id(struct producer *producer, char **out, struct err *err)
{
	*out = broker_query_cluster_id(producer->kafka, ANSWER_MS);
	(void)rd_kafka_poll(producer->kafka, 0);
	return *out == NULL ? no_answer(producer, RD_KAFKA_RESP_ERR__TIMED_OUT, err) : 0;
}

int producer_look(struct producer *producer, const char *topic, struct err *err)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_topic_t *handle = rd_kafka_topic_new(producer->kafka, topic, NULL);
	rd_kafka_resp_err_t code;
	int r;

	producer->leaderless = 0;
	if (handle == NULL)
		return check_topic(rd_kafka_last_error(), topic, err);
	progress_note(ANSWER_MS);
	code = rd_kafka_metadata(producer->kafka, 0, handle, &metadata, ANSWER_MS);
	rd_kafka_topic_destroy(handle);
	(void)rd_kafka_poll(producer->kafka, 0);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return no_answer(producer, code, err);
	r = metadata->topic_cnt == 1 ? check_topic(metadata->topics[0].err, topic, err)
				     : PRODUCER_NO_TOPIC;
	if (r == 0)
		producer->leaderless = count_leaderless(&metadata->topics[0]);
	rd_kafka_metadata_destroy(metadata);
	return r;
}

int producer_leaderless(const struct producer *producer)
{
	return producer->leaderless;
}

static void read_rules(rd_kafka_event_t *event, struct topic_rules_found *out)
{
	const rd_kafka_DescribeConfigs_result_t *result =
		event == NULL ? NULL : rd_kafka_event_DescribeConfigs_result(event);
	const rd_kafka_ConfigResource_t **topics = NULL;
	const rd_kafka_ConfigEntry_t **entries = NULL;
	size_t count = 0;

	if (result != NULL)
		topics = rd_kafka_DescribeConfigs_result_resources(result, &count);
	if (count == 1)
		entries = rd_kafka_ConfigResource_configs(topics[0], &count);
	for (size_t i = 0; entries != NULL && i < count; i++) {
		const char *name = rd_kafka_ConfigEntry_name(entries[i]);
		const char *value = rd_kafka_ConfigEntry_value(entries[i]);

		if (value == NULL)
			continue;
		if (strcmp(name, "max.message.bytes") == 0)
			out->max_bytes = atoll(value);
		else if (strcmp(name, "message.timestamp.before.max.ms") == 0)
			out->before_ms = atoll(value);
		else if (strcmp(name, "message.timestamp.after.max.ms") == 0)
			out->after_ms = atoll(value);
		else if (strcmp(name, "cleanup.policy") == 0)
			out->compacted = strstr(value, "compact") != NULL;
	}
}

void producer_topic_rules(
	struct producer *producer, const char *topic, struct topic_rules_found *out)
{
	rd_kafka_ConfigResource_t *resource =
		rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(producer->kafka);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(producer->kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_event_t *event;

	*out = (struct topic_rules_found){ UNKNOWN_LIMIT, -1, -1, false };
	(void)rd_kafka_AdminOptions_set_request_timeout(options, LIMIT_MS, NULL, 0);
	rd_kafka_DescribeConfigs(producer->kafka, &resource, 1, options, queue);
	progress_note(LIMIT_MS);
	event = rd_kafka_queue_poll(queue, LIMIT_MS);
	read_rules(event, out);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_queue_destroy(queue);
	rd_kafka_ConfigResource_destroy(resource);
}

/* --- Transactions ------------------------------------------------------------------------------ */

static int transaction_result(rd_kafka_error_t *error, const char *what, struct err *err)
{
	int r;

	if (error == NULL)
		return 0;
	r = err_set(err, FAULT_KAFKA, "%s: %s", what, rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return r;
}

static int begin_transactions(struct producer *producer, struct err *err)
{
	progress_note(BEGIN_MS);
	return transaction_result(rd_kafka_init_transactions(producer->kafka, BEGIN_MS),
		"the producer's transactions cannot be used", err);
}

int producer_begin(struct producer *producer, struct err *err)
{
	return transaction_result(rd_kafka_begin_transaction(producer->kafka),
		"a Kafka transaction could not be begun", err);
}

int producer_commit(struct producer *producer, int timeout_ms, struct err *err)
{
	progress_note(timeout_ms);
	return transaction_result(rd_kafka_commit_transaction(producer->kafka, timeout_ms),
		"a Kafka transaction could not be committed", err);
}

/* librdkafka declares parameters without const although it only copies from them. */
static void *unconst(const void *data)
{
	union {
		const void *given;
		void *taken;
	} pointer = { data };

	return pointer.taken;
}

rd_kafka_headers_t *producer_headers_new(void)
{
	return rd_kafka_headers_new(32);
}

/* This can fail only for read-only headers. */
void producer_headers_add(rd_kafka_headers_t *headers, struct bytes name, struct bytes value)
{
	(void)rd_kafka_header_add(
		headers, name.data, (ssize_t)name.length, value.data, (ssize_t)value.length);
}

void producer_send(
	struct producer *producer, const struct outgoing *record, struct produce_result *result)
{
	rd_kafka_resp_err_t code;

	*result = (struct produce_result){ PRODUCE_OPEN,
		rd_kafka_err2str(RD_KAFKA_RESP_ERR__IN_PROGRESS), 0, 0, false };
	producer->open++;
	code = rd_kafka_producev(producer->kafka, RD_KAFKA_V_TOPIC(record->topic),
		RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		RD_KAFKA_V_KEY(unconst(record->key.data), record->key.length),
		RD_KAFKA_V_VALUE(unconst(record->value.data), record->value.length),
		RD_KAFKA_V_HEADERS(record->headers), RD_KAFKA_V_OPAQUE(result), RD_KAFKA_V_END);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	rd_kafka_headers_destroy(record->headers);
	*result = result_of(code);
	producer->open--;
}

/* librdkafka does not answer for requests that were behind the one with the fatal error. */
static void drop_unanswered(struct producer *producer)
{
	(void)rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	(void)rd_kafka_poll(producer->kafka, 0);
}

bool producer_wait(struct producer *producer, int timeout_ms)
{
	int64_t until_ms = clock_now_ms() + timeout_ms;
	int64_t left = timeout_ms;

	while (producer->open > 0 && left >= 0) {
		progress_note(left);
		(void)rd_kafka_poll(producer->kafka, (int)left);
		left = until_ms - clock_now_ms();
	}
	if (producer->open > 0 && producer_has_ended(producer))
		drop_unanswered(producer);
	throttle_look(&producer->throttle);
	return producer->open == 0;
}

const char *producer_last_words(const struct producer *producer)
{
	return producer->last_words;
}

bool producer_has_ended(const struct producer *producer)
{
	return rd_kafka_fatal_error(producer->kafka, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
}
