/*
 * Does the inbox remember longer than Kafka keeps? An id that was purged while its record can still be
 * read again would be handled twice. For `inboxd check`, and for a word in the log when `run` starts.
 */
#ifndef INGEST_RETENTION_H
#define INGEST_RETENTION_H

#include <librdkafka/rdkafka.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* One line a topic in the report. FAULT_CHECK when retention.processed does not exceed the retention of
 * a topic; what the broker (a node id; -1: the controller) does not tell is reported and passes. Waits up
 * to ten seconds. */
int retention_check(rd_kafka_t *kafka, const struct config *config, int32_t broker,
	struct buf *report, struct err *err);

/* The same question without waiting: NULL when there is no topic to ask for. retention_hear() takes the answer
 * once it is there, writes what is wrong to the log, and makes the queue NULL. */
rd_kafka_queue_t *retention_ask(rd_kafka_t *kafka, const struct config *config);
void retention_hear(rd_kafka_queue_t **queue, const struct config *config);
/* Before the consumer is freed. NULL is fine. */
void retention_forget(rd_kafka_queue_t **queue);

#endif
