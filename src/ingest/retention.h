/*
 * Checks that the inbox remembers ids longer than Kafka keeps records. If an id is purged while its
 * record can still be read again, the message is processed twice. For `inboxd check`, and for a
 * warning when `run` starts.
 */
#ifndef INGEST_RETENTION_H
#define INGEST_RETENTION_H

#include <librdkafka/rdkafka.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Adds one line per topic to the report. FAULT_CHECK when retention.processed is not longer than
 * the retention of a topic. If the broker does not tell its retention, that is reported and passes.
 * `broker`: a node id; -1: the controller. Waits up to ten seconds. */
int retention_check(rd_kafka_t *kafka, const struct config *config, int32_t broker,
	struct buf *report, struct err *err);

/* The same request without waiting; NULL when no topic is to be checked. retention_poll() reads the
 * answer when it is there, logs problems, and sets the queue to NULL. */
rd_kafka_queue_t *retention_ask(rd_kafka_t *kafka, const struct config *config);
void retention_poll(rd_kafka_queue_t **queue, const struct config *config);
/* Call it before the consumer is freed. NULL is allowed. */
void retention_forget(rd_kafka_queue_t **queue);

#endif
