/*
 * The Kafka part of `inboxd check` and of `inboxd adopt`. It joins no group and commits nothing.
 */
#include <string.h>

#include <librdkafka/rdkafka.h>

#include "base/cleanup.h"
#include "base/text/numbers.h"
#include "ingest/ingest.h"
#include "ingest/kafka/commands/advertised.h"
#include "ingest/kafka/commands/probe.h"
#include "ingest/kafka/commands/topic_retention.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/kafka/convert.h"

/* --- Topics ------------------------------------------------------------------------------------ */

static int check_topic(const struct rd_kafka_metadata *metadata, const char *name,
	struct buf *report, struct err *err)
{
	const struct rd_kafka_metadata_topic *topic = metadata_topic(metadata, name);

	if (name[0] == '^') {
		buf_addf(report, "pattern %s: topics are matched at run time\n", name);
		return 0;
	}
	if (topic == NULL || topic->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
		(void)err_set(err, FAULT_CHECK,
			"kafka.topics: topic \"%s\" does not exist, or is not visible with these "
			"credentials",
			name);
		return err_advise(err, "create it, grant DESCRIBE and READ, or correct the name");
	}
	if (topic->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_CHECK, "kafka.topics: topic \"%s\": %s", name,
			rd_kafka_err2str(topic->err));
	buf_addf(report, "topic %s: %d partition%s\n", name, topic->partition_cnt,
		plural(topic->partition_cnt));
	return 0;
}

static int check_dead_topic(const struct config *config, const struct rd_kafka_metadata *metadata,
	struct buf *report, struct err *err)
{
	const char *name = config->retry.dead_topic;
	const struct rd_kafka_metadata_topic *topic = metadata_topic(metadata, name);

	if (name[0] == '\0')
		return 0;
	if (topic == NULL || topic->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
		(void)err_set(err, FAULT_CHECK,
			"retry.dead_topic: topic \"%s\" does not exist, or is not visible with "
			"these credentials",
			name);
		return err_advise(err, "create it, grant DESCRIBE and WRITE, or correct the name; "
				       "until then dead messages are only in the table");
	}
	if (topic->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_CHECK, "retry.dead_topic: topic \"%s\": %s", name,
			rd_kafka_err2str(topic->err));
	buf_addf(report, "dead topic %s: %d partition%s\n", name, topic->partition_cnt,
		plural(topic->partition_cnt));
	return 0;
}

/* Every topic appears in the report, except the first one that fails: it becomes the error. */
static int check_topics(const struct config *config, const struct rd_kafka_metadata *metadata,
	struct buf *report, struct err *err)
{
	int first = 0;

	for (size_t i = 0; i < config->kafka_topics.count; i++) {
		struct err one = ERR_INIT;

		if (check_topic(metadata, config->kafka_topics.items[i], report, &one) == 0)
			continue;
		if (first == 0)
			*err = one;
		else
			buf_addf(report, "%s\n", one.text);
		first = one.fault;
	}
	return first;
}

/* A broker that can be reached; -1 = unknown. */
static int32_t broker_of(const struct rd_kafka_metadata *metadata)
{
	if (metadata->orig_broker_id >= 0)
		return metadata->orig_broker_id;
	return metadata->broker_cnt > 0 ? metadata->brokers[0].id : -1;
}

/* A sidecar that only sends events joins no group. */
static int check_group(
	struct probe *probe, const struct config *config, struct buf *report, struct err *err)
{
	int r;

	if (config_sends_only(config))
		return 0;
	r = probe_coordinator(probe, config->kafka_topics.items[0], err);
	if (r == 0)
		buf_addf(report, "group %s: its coordinator answers\n",
			consumer_conf_value(config, "group.id", ""));
	return r;
}

static int check_cluster(
	struct probe *probe, const struct config *config, struct buf *report, struct err *err)
{
	const struct rd_kafka_metadata *metadata = NULL;
	CLEANUP(freep) char *cluster = NULL;
	int32_t broker;
	int r = probe_metadata(probe, &metadata, err);

	if (r < 0)
		return r;
	cluster = probe_cluster_id(probe);
	buf_addf(report, "cluster %s, %d broker%s, group %s\n",
		cluster == NULL ? "without an id" : cluster, metadata->broker_cnt,
		plural(metadata->broker_cnt), consumer_conf_value(config, "group.id", ""));
	r = advertised_check(probe, metadata, report, err);
	if (r == 0)
		r = check_topics(config, metadata, report, err);
	if (r == 0)
		r = check_dead_topic(config, metadata, report, err);
	broker = broker_of(metadata);
	rd_kafka_metadata_destroy(metadata);
	if (r == 0)
		r = check_group(probe, config, report, err);
	return r == 0 ? topic_retention_check(probe_handle(probe), config, broker, report, err) : r;
}

int ingest_check(const struct config *config, struct buf *report, struct err *err)
{
	struct probe *probe = NULL;
	int r = consumer_conf_check(config, report, err);

	if (r == 0)
		r = probe_open(&probe, config, PROBE_PLAIN, err);
	if (r == 0)
		r = check_cluster(probe, config, report, err);
	probe_close(probe);
	return r;
}

int ingest_identify(
	const struct config *config, char **cluster_id, const char **group_id, struct err *err)
{
	struct probe *probe = NULL;
	int r = probe_open(&probe, config, PROBE_PLAIN, err);

	if (r < 0)
		return r;
	*cluster_id = probe_cluster_id(probe);
	*group_id = consumer_conf_value(config, "group.id", "");
	if (*cluster_id == NULL)
		r = probe_no_answer(probe, "sent the id of the cluster", "no answer", err);
	probe_close(probe);
	return r;
}
