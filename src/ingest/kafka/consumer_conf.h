/*
 * Builds the configuration of librdkafka for the consumer, and for the producers of the dead topic and of the outbox:
 * inboxd's defaults, then the user's settings under `kafka`, then the values that inboxd requires.
 * Any thread.
 */
#ifndef INGEST_KAFKA_CONSUMER_CONF_H
#define INGEST_KAFKA_CONSUMER_CONF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* queued.max.messages.kbytes: fetched records use memory, and they only need to last until the next response of a
 * broker (ADR 15). */
#define PREFETCH_KIB 2048

struct rd_kafka_conf_s; /* rd_kafka_conf_t */

/* True when this librdkafka has the setting fetch.queue.backoff.ms. */
bool prefetch_has_backoff(void);

/* FAULT_CONFIG names the key and contains librdkafka's text. The caller destroys the result or
 * passes it to rd_kafka_new(). */
int consumer_conf_new(struct rd_kafka_conf_s **out, const struct config *config, struct err *err);

/* Tries each setting of the user. FAULT_CONFIG, FAULT_MEMORY: the first one that is refused; the others are lines of the
 * report. */
int consumer_conf_check(const struct config *config, struct buf *report, struct err *err);

/* What a producer is for. */
enum producer_use {
	PRODUCER_DEAD_TOPIC, /* each record is confirmed or fails within ten seconds */
	/* No record fails because of its age (rule O4). After a record that the brokers refuse, the producer accepts
	 * and sends nothing more: no later record of the partition can be in the log. */
	PRODUCER_OUTBOX,
	/* The same, but a refused record does not end the producer: for one record at a time. */
	PRODUCER_OUTBOX_SINGLE,
	/* The same as PRODUCER_OUTBOX with one Kafka transaction after the other. */
	PRODUCER_OUTBOX_TRANSACTIONS,
	PRODUCER_USES
};

/* The most bytes that one request of a PRODUCER_OUTBOX has for a partition, unless it is a single record. */
#define PRODUCER_BATCH_BYTES 1000000

/* The same for a producer. Connection and security settings are the user's; time limits and guarantees are
 * inboxd's. */
int producer_conf_new(struct rd_kafka_conf_s **out, const struct config *config,
	enum producer_use use, struct err *err);

/* The user's value of a setting; the last one if the setting occurs twice. `fallback` when it is
 * not set. */
const char *consumer_conf_value(
	const struct config *config, const char *name, const char *fallback);

/* True with `group.protocol: consumer` (KIP-848): the brokers assign the partitions, and end the sessions. */
bool consumer_conf_brokers_assign(const struct config *config);

#endif
