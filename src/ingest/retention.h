/*
 * Does the inbox remember longer than Kafka keeps? An id that was purged while its record can still be
 * read again would be handled twice. For `inboxd check`.
 */
#ifndef INGEST_RETENTION_H
#define INGEST_RETENTION_H

#include <librdkafka/rdkafka.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* One line a topic in the report. FAULT_CHECK when retention.processed does not exceed the retention of
 * a topic; what the broker does not tell is reported and passes. Waits up to ten seconds. */
int retention_check(
	rd_kafka_t *kafka, const struct config *config, struct buf *report, struct err *err);

#endif
