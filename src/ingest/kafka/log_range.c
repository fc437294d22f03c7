/*
 * Implements log_range.h.
 */
#include "ingest/kafka/log_range.h"

#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/probe.h"

struct lists {
	rd_kafka_topic_partition_list_t *begin;
	rd_kafka_topic_partition_list_t *end;
	rd_kafka_topic_partition_list_t *at;
};

static void lists_init(struct lists *lists, const char *topic, int32_t partition)
{
	lists->begin = rd_kafka_topic_partition_list_new(1);
	(void)rd_kafka_topic_partition_list_add(lists->begin, topic, partition);
	lists->end = rd_kafka_topic_partition_list_copy(lists->begin);
	lists->at = rd_kafka_topic_partition_list_copy(lists->begin);
}

static void lists_fini(struct lists *lists)
{
	rd_kafka_topic_partition_list_destroy(lists->begin);
	rd_kafka_topic_partition_list_destroy(lists->end);
	rd_kafka_topic_partition_list_destroy(lists->at);
}

static int read_one(
	const rd_kafka_topic_partition_list_t *list, int64_t none, int64_t *out, struct err *err)
{
	const rd_kafka_topic_partition_t *one = &list->elems[0];

	if (one->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_KAFKA,
			"%s/%d: the offsets of the log could not be read: %s", one->topic,
			one->partition, rd_kafka_err2str(one->err));
	*out = one->offset < 0 ? none : one->offset;
	return 0;
}

static int ask(rd_kafka_t *kafka, struct lists *lists, int64_t time_ms, struct log_range *out,
	struct err *err)
{
	int r = broker_query_bounds(kafka, lists->begin, lists->end, err);

	if (r == 0 && time_ms >= 0)
		r = broker_query_time(kafka, lists->at, time_ms, err);
	if (r == 0)
		r = read_one(lists->begin, 0, &out->begin, err);
	if (r == 0)
		r = read_one(lists->end, out->begin, &out->end, err);
	if (r == 0 && time_ms >= 0)
		r = read_one(lists->at, out->end, &out->at, err);
	return r;
}

int ingest_log_range(const struct config *config, const struct log_question *question,
	struct log_range *out, struct err *err)
{
	struct probe probe = { .kafka = NULL };
	struct lists lists;
	int32_t partitions;
	int r = probe_open(&probe, config, false, err);

	*out = (struct log_range){ .at = -1 };
	lists_init(&lists, question->topic, question->partition);
	if (r == 0)
		r = probe_topic(&probe, question->topic, question->partition, &partitions, err);
	if (r == 0)
		r = ask(probe.kafka, &lists, question->time_ms, out, err);
	lists_fini(&lists);
	probe_close(&probe);
	return r;
}
