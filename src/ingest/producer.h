/*
 * The Kafka producer: librdkafka wrapped in what the dead topic needs of it. What brokers have confirmed is on all
 * replicas in sync (acks=all), and a retry inside the client is no second copy (idempotence). One thread; its
 * callbacks run within the calls of that thread, but for logs.
 */
#ifndef INGEST_PRODUCER_H
#define INGEST_PRODUCER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "config/config.h"

struct producer;

/* Connects in the background. FAULT_CONFIG in librdkafka's words. */
int producer_new(struct producer **out, const struct config *config, struct err *err);
/* What is not confirmed yet is given up; no result is written any more. Takes NULL. */
void producer_free(struct producer *producer);

/* Asks the brokers for the topic, waits at most a second. PRODUCER_NO_TOPIC: it does not exist, or may not be
 * seen; FAULT_KAFKA: nobody answered, or nobody could use it. */
enum { PRODUCER_NO_TOPIC = 1 };
int producer_look(struct producer *producer, const char *topic, struct err *err);

struct outgoing {
	const char *topic;
	struct bytes key; /* absent and empty are different things, in both */
	struct bytes value;
	rd_kafka_headers_t *headers; /* taken */
};
/* Queues a copy. `result` is 0 once the brokers have confirmed it, an error when it was given up, and
 * RD_KAFKA_RESP_ERR__IN_PROGRESS until then; it must live until then, or until producer_free(). */
void producer_send(
	struct producer *producer, const struct outgoing *record, rd_kafka_resp_err_t *result);
/* True when every result is written; waits at most timeout_ms for it. */
bool producer_wait(struct producer *producer, int timeout_ms);
/* What the client said of the brokers last, or "". Borrowed until the next call. */
const char *producer_last_words(const struct producer *producer);

#endif
