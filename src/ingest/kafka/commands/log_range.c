/*
 * Implements log_range.h.
 */
#include "ingest/kafka/commands/log_range.h"

#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/commands/probe.h"

/* Below 0: the log has no such record. */
static int ask(struct rd_kafka_s *kafka, const struct log_question *question, int64_t which,
	int64_t *out, struct err *err)
{
	struct partition_offset one = { question->topic, question->partition, -1, NULL };
	const struct log_query query = { which, BROKER_ANSWER_MS };
	int r = broker_query_log(kafka, query, &one, 1, err);

	*out = one.offset;
	if (r == 0 && one.error != NULL)
		r = err_set(err, FAULT_KAFKA, "%s/%d: the offsets of the log could not be read: %s",
			one.topic, one.partition, one.error);
	return r;
}

int ingest_log_range(const struct config *config, const struct log_question *question,
	struct log_range *out, struct err *err)
{
	struct probe *probe = NULL;
	int32_t partitions;
	int r = probe_open(&probe, config, PROBE_PLAIN, err);

	*out = (struct log_range){ .at = -1 };
	if (r == 0)
		r = probe_topic(probe, question->topic, question->partition, &partitions, err);
	if (r == 0)
		r = ask(probe_handle(probe), question, BROKER_LOG_BEGIN, &out->begin, err);
	if (r == 0)
		r = ask(probe_handle(probe), question, BROKER_LOG_END, &out->end, err);
	if (r == 0 && question->time_ms >= 0)
		r = ask(probe_handle(probe), question, question->time_ms, &out->at, err);
	probe_close(probe);
	if (r < 0)
		return r;
	if (out->begin < 0)
		out->begin = 0;
	if (out->end < 0)
		out->end = out->begin;
	if (question->time_ms >= 0 && out->at < 0)
		out->at = out->end;
	return 0;
}
