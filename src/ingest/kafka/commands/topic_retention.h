/*
 * Checks that the inbox remembers ids longer than Kafka keeps records. If an id is purged while its
 * record can still be read again, the message is processed twice. For `inboxd check`, and for a
 * warning when `run` starts.
 */
#ifndef INGEST_KAFKA_COMMANDS_TOPIC_RETENTION_H
#define INGEST_KAFKA_COMMANDS_TOPIC_RETENTION_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

struct rd_kafka_s;
struct rd_kafka_queue_s;

/* Adds one line per topic to the report. FAULT_CHECK when retention.processed is not longer than
 * the retention of a topic. If the broker does not tell its retention, that is reported and passes.
 * `broker`: a node id; -1: the controller. Waits up to ten seconds. */
int topic_retention_check(struct rd_kafka_s *kafka, const struct config *config, int32_t broker,
	struct buf *report, struct err *err);

/* The same request without waiting; NULL when no topic is to be checked. topic_retention_poll() reads the
 * answer when it is there, logs problems, and sets the queue to NULL. */
struct rd_kafka_queue_s *topic_retention_ask(struct rd_kafka_s *kafka, const struct config *config);
void topic_retention_poll(struct rd_kafka_queue_s **queue, const struct config *config);
/* Call it before the consumer is freed. NULL is allowed. */
void topic_retention_forget(struct rd_kafka_queue_s **queue);

#endif
