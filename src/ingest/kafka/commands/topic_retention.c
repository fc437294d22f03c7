/*
 * Implements topic_retention.h.
 */
#include "ingest/kafka/commands/topic_retention.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define ANSWER_MS 10000
#define SECOND_MS 1000LL

struct check {
	const struct config *config;
	struct buf *report; /* NULL: write to the log instead */
	struct err *err;
	int result;
};

static const char *value_of(const rd_kafka_ConfigResource_t *topic, const char *name)
{
	size_t count = 0;
	const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(topic, &count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0)
			return rd_kafka_ConfigEntry_value(entries[i]);
	}
	return NULL;
}

static void too_short(struct check *check, const char *topic, int64_t kept_ms)
{
	struct err one = ERR_INIT;

	if (check->report == NULL) {
		log_warn("retention_short", LOG_STR("topic", topic),
			LOG_INT("topic_keeps_s", kept_ms / SECOND_MS),
			LOG_INT("retention_processed_s",
				check->config->retention.processed / SECOND_MS),
			LOG_STR("next", "a record that is read again after its id was purged is "
					"processed twice; increase retention.processed"));
		return;
	}
	(void)err_set(&one, FAULT_CHECK,
		"retention.processed (%lld s) must be longer than the retention of topic \"%s\" "
		"(%lld s): a record that is read again after its id was purged is processed twice",
		(long long)(check->config->retention.processed / SECOND_MS), topic,
		(long long)(kept_ms / SECOND_MS));
	(void)err_advise(&one, "increase retention.processed");
	if (check->result == 0)
		*check->err = one;
	else
		buf_addf(check->report, "%s\n", one.text);
	check->result = FAULT_CHECK;
}

static void unknown(struct check *check, const char *topic, const char *why)
{
	if (check->report != NULL)
		buf_addf(check->report, "topic %s: retention unknown: %s\n", topic, why);
	else
		log_info("retention_unknown", LOG_STR("topic", topic), LOG_STR("error", why));
}

static void kept_forever(struct check *check, const char *topic)
{
	if (check->report != NULL)
		buf_addf(check->report,
			"topic %s keeps its records forever; a record that is read again after "
			"retention.processed is stored again\n",
			topic);
	else
		log_info("retention_topic_keeps_all", LOG_STR("topic", topic),
			LOG_STR("next", "a record that is read again after its id was purged is "
					"stored again"));
}

static void check_one(struct check *check, const rd_kafka_ConfigResource_t *topic)
{
	const char *name = rd_kafka_ConfigResource_name(topic);
	const char *kept = value_of(topic, "retention.ms");
	int64_t kept_ms;

	if (rd_kafka_ConfigResource_error(topic) != RD_KAFKA_RESP_ERR_NO_ERROR || kept == NULL) {
		unknown(check, name, rd_kafka_err2str(rd_kafka_ConfigResource_error(topic)));
		return;
	}
	kept_ms = strtoll(kept, NULL, 10);
	if (check->config->retention.processed == CONFIG_NEVER)
		return;
	if (kept_ms < 0)
		kept_forever(check, name);
	else if (check->config->retention.processed <= kept_ms)
		too_short(check, name, kept_ms);
}

/* For a broker without this request, librdkafka's text names a Kafka version, as if a setting had
 * to be changed. */
static const char *why_unknown(rd_kafka_event_t *event)
{
	if (event == NULL)
		return "no answer";
	if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE)
		return "this broker does not support the request; inboxd-devbroker is one of those";
	return rd_kafka_event_error_string(event);
}

static void check_answer(struct check *check, rd_kafka_event_t *event)
{
	const rd_kafka_DescribeConfigs_result_t *result =
		event == NULL ? NULL : rd_kafka_event_DescribeConfigs_result(event);
	const rd_kafka_ConfigResource_t **topics = NULL;
	size_t count = 0;

	if (result == NULL || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
		unknown(check, "*", why_unknown(event));
		return;
	}
	topics = rd_kafka_DescribeConfigs_result_resources(result, &count);
	for (size_t i = 0; i < count; i++)
		check_one(check, topics[i]);
}

static size_t list_topics(const struct config *config, rd_kafka_ConfigResource_t **topics)
{
	size_t count = 0;

	for (size_t i = 0; i < config->kafka_topics.count; i++) {
		if (config->kafka_topics.items[i][0] != '^')
			topics[count++] = rd_kafka_ConfigResource_new(
				RD_KAFKA_RESOURCE_TOPIC, config->kafka_topics.items[i]);
	}
	return count;
}

/* Asks the given broker, if there is one, because every Kafka broker knows the answer. A cluster
 * without a controller, such as librdkafka's mock cluster, cannot answer otherwise. */
static void describe(rd_kafka_t *kafka, rd_kafka_ConfigResource_t **topics, size_t count,
	int32_t broker, rd_kafka_queue_t *queue)
{
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);

	if (broker >= 0)
		(void)rd_kafka_AdminOptions_set_broker(options, broker, NULL, 0);
	rd_kafka_DescribeConfigs(kafka, topics, count, options, queue);
	rd_kafka_AdminOptions_destroy(options);
}

static rd_kafka_queue_t *ask(rd_kafka_t *kafka, const struct config *config, int32_t broker)
{
	rd_kafka_ConfigResource_t **topics =
		calloc(config->kafka_topics.count + 1, sizeof(rd_kafka_ConfigResource_t *));
	size_t count = topics == NULL ? 0 : list_topics(config, topics);
	rd_kafka_queue_t *queue = NULL;

	if (count > 0) {
		queue = rd_kafka_queue_new(kafka);
		describe(kafka, topics, count, broker, queue);
		rd_kafka_ConfigResource_destroy_array(topics, count);
	}
	free(topics);
	return queue;
}

rd_kafka_queue_t *topic_retention_ask(rd_kafka_t *kafka, const struct config *config)
{
	return ask(kafka, config, -1);
}

void topic_retention_forget(rd_kafka_queue_t **queue)
{
	if (*queue != NULL)
		rd_kafka_queue_destroy(*queue);
	*queue = NULL;
}

void topic_retention_poll(rd_kafka_queue_t **queue, const struct config *config)
{
	struct check check = { .config = config };
	rd_kafka_event_t *event = *queue == NULL ? NULL : rd_kafka_queue_poll(*queue, 0);

	if (event == NULL)
		return;
	check_answer(&check, event);
	rd_kafka_event_destroy(event);
	topic_retention_forget(queue);
}

int topic_retention_check(rd_kafka_t *kafka, const struct config *config, int32_t broker,
	struct buf *report, struct err *err)
{
	struct check check = { config, report, err, 0 };
	rd_kafka_queue_t *queue = ask(kafka, config, broker);
	rd_kafka_event_t *event;

	if (queue == NULL)
		return 0;
	event = rd_kafka_queue_poll(queue, ANSWER_MS);
	check_answer(&check, event);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_queue_destroy(queue);
	return check.result;
}
