/*
 * The Kafka producer: librdkafka with the few operations that the dead topic needs. A confirmed
 * record is on all in-sync replicas (acks=all), and a retry inside the client does not create a
 * second copy (idempotence). One thread; callbacks run inside the calls of that thread, except log
 * callbacks.
 */
#ifndef INGEST_KAFKA_PRODUCER_H
#define INGEST_KAFKA_PRODUCER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "config/config.h"

struct producer;

/* Connects in the background. FAULT_CONFIG with librdkafka's text. */
int producer_new(struct producer **out, const struct config *config, struct err *err);
/* Drops unconfirmed records and writes no results any more. Accepts NULL. */
void producer_free(struct producer *producer);

/* Asks the brokers for the topic and waits at most one second. PRODUCER_NO_TOPIC: the topic does
 * not exist or is not visible. FAULT_KAFKA: no answer, or the topic cannot be used. */
enum { PRODUCER_NO_TOPIC = 1 };
int producer_look(struct producer *producer, const char *topic, struct err *err);

/* What became of a record. */
enum produce_outcome {
	PRODUCE_OPEN,      /* no result yet */
	PRODUCE_CONFIRMED, /* the brokers have it */
	PRODUCE_REFUSED,   /* the record itself is the cause, not the brokers: others may succeed */
	PRODUCE_FAILED,
};
struct produce_result {
	enum produce_outcome outcome;
	const char *error; /* a text that lives as long as the process; NULL when confirmed */
};

/* A list of headers; it copies names and values. */
struct rd_kafka_headers_s;
struct rd_kafka_headers_s *producer_headers_new(void);
void producer_headers_add(
	struct rd_kafka_headers_s *headers, struct bytes name, struct bytes value);

struct outgoing {
	const char *topic;
	struct bytes key; /* for key and value, missing and empty are different */
	struct bytes value;
	struct rd_kafka_headers_s *headers; /* taken */
};
/* Queues a copy of the record. The outcome in `result` is PRODUCE_OPEN until the brokers have confirmed the
 * record, or until it failed. `result` must exist until then, or until producer_free(). */
void producer_send(
	struct producer *producer, const struct outgoing *record, struct produce_result *result);
/* True when all results are written; waits at most timeout_ms. */
bool producer_wait(struct producer *producer, int timeout_ms);
/* The last error of the client about a broker, or "". Borrowed until the next call. */
const char *producer_last_words(const struct producer *producer);

#endif
