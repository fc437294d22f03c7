/*
 * Implements probe.h.
 */
#include "ingest/kafka/probe.h"

#include <stdio.h>

#include "base/plural.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/consumer_conf.h"

/* Most reachable brokers answer within SOON_MS. If librdkafka has tried all brokers without success
 * by then, the probe does not wait until LATE_MS. */
#define SOON_MS 2500
#define LATE_MS 7500

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
	struct probe *probe = opaque;

	(void)kafka;
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
		probe->all_down = true;
	/* "all brokers down" follows from the errors before it, which say why */
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && probe->last_error[0] != '\0')
		return;
	probe->last_code = (rd_kafka_resp_err_t)code;
	(void)snprintf(probe->last_error, sizeof(probe->last_error), "%s: %s",
		rd_kafka_err2name((rd_kafka_resp_err_t)code), reason);
}

/* Drops log lines: inboxd's settings enable debug lines, which are useless at a terminal. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	(void)kafka;
	(void)level;
	(void)facility;
	(void)text;
}

int probe_open(struct probe *probe, const struct config *config, bool eof, struct err *err)
{
	rd_kafka_conf_t *conf = NULL;
	char words[512];
	int r = consumer_conf_new(&conf, config, err);

	if (r < 0)
		return r;
	probe->config = config;
	rd_kafka_conf_set_opaque(conf, probe);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_log_cb(conf, on_log);
	tls_errors_register(conf);
	if (rd_kafka_conf_set(conf, "enable.partition.eof", eof ? "true" : "false", words,
		    sizeof(words)) == RD_KAFKA_CONF_OK)
		probe->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, words, sizeof(words));
	if (probe->kafka == NULL) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, FAULT_CONFIG, "kafka: %s", words);
	}
	(void)rd_kafka_poll_set_consumer(probe->kafka);
	return 0;
}

void probe_close(struct probe *probe)
{
	if (probe->kafka != NULL)
		rd_kafka_destroy(probe->kafka);
	probe->kafka = NULL;
}

/* librdkafka delivers errors as events of the consumer's queue: on_error() runs only inside a poll. */
static void poll_errors(struct probe *probe)
{
	rd_kafka_message_t *message = rd_kafka_consumer_poll(probe->kafka, 0);

	if (message != NULL)
		rd_kafka_message_destroy(message);
}

int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err)
{
	const char *advice;

	poll_errors(probe);
	advice = tls_errors_advice(&probe->trust, probe->last_code, probe->last_error);
	(void)err_set(err, FAULT_KAFKA, "no broker of kafka.bootstrap.servers (%s) %s: %s",
		consumer_conf_value(probe->config, "bootstrap.servers", ""), what,
		probe->last_error[0] == '\0' ? otherwise : probe->last_error);
	return err_advise(err, "%s",
		advice != NULL
			? advice
			: "correct kafka.bootstrap.servers, or check the brokers and the network");
}

rd_kafka_resp_err_t probe_metadata(
	struct probe *probe, bool all, rd_kafka_topic_t *only, const struct rd_kafka_metadata **out)
{
	rd_kafka_resp_err_t code = rd_kafka_metadata(probe->kafka, all, only, out, SOON_MS);

	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return code;
	poll_errors(probe);
	return probe->all_down ? code : rd_kafka_metadata(probe->kafka, all, only, out, LATE_MS);
}

char *probe_cluster_id(struct probe *probe)
{
	char *id = broker_query_cluster_id(probe->kafka, SOON_MS);

	if (id != NULL)
		return id;
	poll_errors(probe);
	return probe->all_down ? NULL : broker_query_cluster_id(probe->kafka, LATE_MS);
}

static int check_topic(const char *topic, int64_t partition, int32_t partitions,
	rd_kafka_resp_err_t code, struct err *err)
{
	if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
		(void)err_set(err, FAULT_CHECK,
			"topic \"%s\" does not exist, or is not visible with these credentials",
			topic);
		return err_advise(err, "correct its name, or grant DESCRIBE and READ");
	}
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_CHECK, "topic \"%s\": %s", topic, rd_kafka_err2str(code));
	if (partition >= partitions)
		return err_set(err, FAULT_CHECK, "topic \"%s\" has %d partition%s, 0 to %d", topic,
			partitions, plural(partitions), partitions - 1);
	return 0;
}

int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_topic_t *handle = rd_kafka_topic_new(probe->kafka, topic, NULL);
	rd_kafka_resp_err_t found = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	rd_kafka_resp_err_t code;

	*partitions = 0;
	if (handle == NULL) /* the name is empty or too long */
		return check_topic(topic, partition, 0, found, err);
	code = probe_metadata(probe, false, handle, &metadata);
	rd_kafka_topic_destroy(handle);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return probe_no_answer(probe, "answered", rd_kafka_err2str(code), err);
	if (metadata->topic_cnt == 1) {
		*partitions = metadata->topics[0].partition_cnt;
		found = metadata->topics[0].err;
	}
	rd_kafka_metadata_destroy(metadata);
	return check_topic(topic, partition, *partitions, found, err);
}
