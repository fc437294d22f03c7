/*
 * Implements broker_query.h.
 */
#include "ingest/kafka/broker_query.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 5000

int broker_query_committed(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, struct err *err)
{
	rd_kafka_resp_err_t code = rd_kafka_committed(kafka, list, ANSWER_MS);

	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	return err_set(err, FAULT_KAFKA, "the group's offsets could not be read: %s",
		rd_kafka_err2str(code));
}

/* The two logical offsets are the values that the ListOffsets request itself uses for the ends of a
 * log. */
static int list_offsets(rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int64_t which,
	int timeout_ms, struct err *err)
{
	rd_kafka_resp_err_t code;

	for (int i = 0; i < list->cnt; i++)
		list->elems[i].offset = which;
	code = rd_kafka_offsets_for_times(kafka, list, timeout_ms);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	return err_set(err, FAULT_KAFKA, "the ends of the log could not be read: %s",
		rd_kafka_err2str(code));
}

int broker_query_bounds(rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *low,
	rd_kafka_topic_partition_list_t *high, struct err *err)
{
	int r = list_offsets(kafka, low, RD_KAFKA_OFFSET_BEGINNING, ANSWER_MS, err);

	return r < 0 ? r : broker_query_ends(kafka, high, ANSWER_MS, err);
}

int broker_query_ends(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int timeout_ms, struct err *err)
{
	return list_offsets(kafka, list, RD_KAFKA_OFFSET_END, timeout_ms, err);
}

int broker_query_time(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int64_t time_ms, struct err *err)
{
	return list_offsets(kafka, list, time_ms, ANSWER_MS, err);
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
	char *theirs = rd_kafka_clusterid(kafka, timeout_ms);
	char *id = theirs == NULL ? NULL : strdup(theirs);

	if (theirs != NULL)
		rd_kafka_mem_free(kafka, theirs);
	return id;
}

bool broker_query_reaches_broker(rd_kafka_t *kafka, int timeout_ms)
{
	const struct rd_kafka_metadata *metadata = NULL;

	if (rd_kafka_metadata(kafka, 0, NULL, &metadata, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return false;
	rd_kafka_metadata_destroy(metadata);
	return true;
}

static int commit_answer(rd_kafka_event_t *event, struct err *err)
{
	rd_kafka_resp_err_t code =
		event == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(event);

	if (event != NULL)
		rd_kafka_event_destroy(event);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__NO_OFFSET)
		return 0;
	return err_set(err, FAULT_KAFKA, "offsets were not committed: %s", rd_kafka_err2str(code));
}

/* rd_kafka_commit() waits without limit for the broker's answer. A queue of our own can be
 * abandoned after the timeout. */
int broker_commit_offsets(rd_kafka_t *kafka, const rd_kafka_topic_partition_list_t *list,
	int timeout_ms, struct err *err)
{
	rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka);
	rd_kafka_resp_err_t code = rd_kafka_commit_queue(kafka, list, queue, NULL, NULL);
	int r;

	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		r = commit_answer(rd_kafka_queue_poll(queue, timeout_ms), err);
	else
		r = err_set(
			err, FAULT_KAFKA, "offsets were not committed: %s", rd_kafka_err2str(code));
	rd_kafka_queue_destroy(queue);
	return r;
}
