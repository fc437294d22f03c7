/*
 * Implements broker_query.h.
 */
#include "ingest/kafka/broker_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/threads/progress.h"
#include "ingest/kafka/client.h"
#include "ingest/kafka/convert.h"

#define VERSION_THAT_FORGETS_BROKERS 0x020a00ff

_Static_assert(
	BROKER_LOG_END == RD_KAFKA_OFFSET_END && BROKER_LOG_BEGIN == RD_KAFKA_OFFSET_BEGINNING,
	"the ListOffsets request itself uses these values for the ends of a log");

int broker_query_committed(
	rd_kafka_t *kafka, struct partition_offset *items, size_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(items, count);
	rd_kafka_resp_err_t code;

	progress_note(BROKER_ANSWER_MS);
	code = rd_kafka_committed(kafka, list, BROKER_ANSWER_MS);
	partition_list_answer(list, items, count);
	rd_kafka_topic_partition_list_destroy(list);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	return err_set(err, FAULT_KAFKA, "the group's offsets could not be read: %s",
		rd_kafka_err2str(code));
}

int broker_query_log(rd_kafka_t *kafka, struct log_query query, struct partition_offset *items,
	size_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(items, count);
	rd_kafka_resp_err_t code;

	for (int i = 0; i < list->cnt; i++)
		list->elems[i].offset = query.which;
	progress_note(query.timeout_ms);
	code = rd_kafka_offsets_for_times(kafka, list, query.timeout_ms);
	partition_list_answer(list, items, count);
	rd_kafka_topic_partition_list_destroy(list);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	return err_set(err, FAULT_KAFKA, "the ends of the log could not be read: %s",
		rd_kafka_err2str(code));
}

int64_t broker_query_high(rd_kafka_t *kafka, const char *topic, int32_t partition)
{
	int64_t low = -1;
	int64_t high = -1;

	if (rd_kafka_get_watermark_offsets(kafka, topic, partition, &low, &high) !=
		RD_KAFKA_RESP_ERR_NO_ERROR)
		return -1;
	return high < 0 ? -1 : high;
}

char *broker_query_cluster_id(rd_kafka_t *kafka, int timeout_ms)
{
	char *theirs;
	char *id;

	progress_note(timeout_ms);
	theirs = rd_kafka_clusterid(kafka, timeout_ms);
	id = theirs == NULL ? NULL : strdup(theirs);
	if (theirs != NULL)
		rd_kafka_mem_free(kafka, theirs);
	return id;
}

int broker_query_topics(
	rd_kafka_t *kafka, int timeout_ms, topic_visit *visit, void *arg, struct err *err)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_resp_err_t code;
	int r = 0;

	progress_note(timeout_ms);
	code = rd_kafka_metadata(kafka, 1, NULL, &metadata, timeout_ms);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_KAFKA, "the topics could not be read: %s",
			rd_kafka_err2str(code));
	for (int i = 0; r == 0 && i < metadata->topic_cnt; i++)
		r = visit(arg, metadata->topics[i].topic, metadata->topics[i].partition_cnt, err);
	rd_kafka_metadata_destroy(metadata);
	return r;
}

static void note_leader(const struct rd_kafka_metadata_topic *topic, struct partition_offset *item)
{
	item->offset = -1;
	item->error = topic != NULL && topic->err != RD_KAFKA_RESP_ERR_NO_ERROR
			      ? rd_kafka_err2str(topic->err)
			      : "no broker leads the partition";
	for (int i = 0; topic != NULL && i < topic->partition_cnt; i++) {
		if (topic->partitions[i].id != item->partition || topic->partitions[i].leader < 0)
			continue;
		item->offset = topic->partitions[i].leader;
		item->error = NULL;
	}
}

int broker_query_leaders(rd_kafka_t *kafka, int timeout_ms, struct partition_offset *items,
	size_t count, struct err *err)
{
	const struct rd_kafka_metadata_topic *topic = NULL;
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_resp_err_t code;

	progress_note(timeout_ms);
	code = rd_kafka_metadata(kafka, 0, NULL, &metadata, timeout_ms);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
		broker_bootstrap_again(kafka);
		return err_set(err, FAULT_KAFKA,
			"the leaders of the partitions could not be read: %s",
			rd_kafka_err2str(code));
	}
	for (size_t i = 0; i < count; i++) {
		if (topic == NULL || strcmp(topic->topic, items[i].topic) != 0)
			topic = metadata_topic(metadata, items[i].topic);
		note_leader(topic, &items[i]);
	}
	rd_kafka_metadata_destroy(metadata);
	return 0;
}

/* rd_kafka_offsets_for_times() of later versions, as of 2.15, gives its time limit to the request. With a limit of 0 librdkafka would take a
 * broker that has not answered when it looks, once a second, for silent, and end the connection. rd_kafka_ListOffsets() has the limit of
 * other requests, and sends its answer to a queue. librdkafka drops an answer that finds no queue. */
void broker_wake_leaders(rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *partitions)
{
	void (*list_offsets)(rd_kafka_t * kafka, rd_kafka_topic_partition_list_t * partitions,
		const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue) = NULL;
	rd_kafka_queue_t *queue;

	*(void **)&list_offsets = KAFKA_SINCE_2_3(rd_kafka_ListOffsets);
	for (int i = 0; i < partitions->cnt; i++)
		partitions->elems[i].offset = RD_KAFKA_OFFSET_END;
	if (partitions->cnt == 0)
		return;
	if (list_offsets == NULL) {
		(void)rd_kafka_offsets_for_times(kafka, partitions, 0);
		return;
	}
	queue = rd_kafka_queue_new(kafka);
	list_offsets(kafka, partitions, NULL, queue);
	rd_kafka_queue_destroy(queue);
}

void broker_bootstrap_again(rd_kafka_t *kafka)
{
	static const char name[] = "bootstrap.servers";
	const rd_kafka_conf_t *conf = rd_kafka_conf(kafka);
	CLEANUP(freep) char *servers = NULL;
	size_t size = 0;

	if (rd_kafka_version() < VERSION_THAT_FORGETS_BROKERS ||
		rd_kafka_conf_get(conf, name, NULL, &size) != RD_KAFKA_CONF_OK)
		return;
	servers = malloc(size);
	if (servers != NULL && rd_kafka_conf_get(conf, name, servers, &size) == RD_KAFKA_CONF_OK)
		(void)rd_kafka_brokers_add(kafka, servers);
}

/* rd_kafka_commit() waits without limit for the broker's answer. A queue of our own can be
 * abandoned after the timeout. */
int broker_commit_offsets(rd_kafka_t *kafka, const struct partition_offset *items, size_t count,
	int timeout_ms, struct err *err)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(items, count);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka);
	rd_kafka_resp_err_t code = rd_kafka_commit_queue(kafka, list, queue, NULL, NULL);
	rd_kafka_event_t *answer = NULL;

	rd_kafka_topic_partition_list_destroy(list);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
		progress_note(timeout_ms);
		answer = rd_kafka_queue_poll(queue, timeout_ms);
		code = answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer);
	}
	if (answer != NULL)
		rd_kafka_event_destroy(answer);
	rd_kafka_queue_destroy(queue);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__NO_OFFSET)
		return 0;
	return err_set(err, FAULT_KAFKA, "offsets were not committed: %s", rd_kafka_err2str(code));
}
