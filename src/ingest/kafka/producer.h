/*
 * The Kafka producer: librdkafka with the few operations that the dead topic and the outbox need. A confirmed
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
#include "ingest/kafka/consumer_conf.h"
#include "report/metrics.h"

struct producer;

/* Connects in the background. FAULT_CONFIG with librdkafka's text. PRODUCER_OUTBOX_TRANSACTIONS waits for the brokers,
 * at most ten seconds: FAULT_KAFKA. `metrics`: NULL = it will send no records. */
int producer_new(struct producer **out, const struct config *config, enum producer_use use,
	struct metrics *metrics, struct err *err);
/* Drops unconfirmed records and writes no results any more. Accepts NULL. */
void producer_free(struct producer *producer);

/* The id of the cluster, malloc'ed; waits at most one second. FAULT_KAFKA: no broker sent it. */
int producer_cluster_id(struct producer *producer, char **out, struct err *err);
/* Asks the brokers for the topic and waits at most one second. PRODUCER_NO_TOPIC: the topic does
 * not exist or is not visible. PRODUCER_BAD_TOPIC: the brokers say that it cannot be used; `err` says why. FAULT_KAFKA:
 * no answer. */
enum { PRODUCER_NO_TOPIC = 1, PRODUCER_BAD_TOPIC };
int producer_look(struct producer *producer, const char *topic, struct err *err);
/* The number of partitions of the topic that have no leader, as of the last producer_look(). */
int producer_leaderless(const struct producer *producer);
/* The rules of a topic for new records. */
struct topic_rules_found {
	int64_t max_bytes; /* max.message.bytes; a low value if the brokers do not send it */
	int64_t before_ms; /* message.timestamp.before.max.ms; -1 = not known, as the next one */
	int64_t after_ms;  /* message.timestamp.after.max.ms */
	bool compacted;    /* cleanup.policy has `compact`: a record needs a key */
};
/* Asks the brokers. Waits at most three seconds. */
void producer_topic_rules(
	struct producer *producer, const char *topic, struct topic_rules_found *out);

/* What became of a record. */
enum produce_outcome {
	PRODUCE_OPEN,      /* no result yet */
	PRODUCE_CONFIRMED, /* the brokers have it */
	/* The record itself is the cause, not the brokers: others may succeed. Or another record of its request is. Sent alone, it
	 * gets its own result. */
	PRODUCE_REFUSED,
	PRODUCE_FAILED,
	/* The producer gave the record up because of another one. The brokers may have it. */
	PRODUCE_DROPPED
};
struct produce_result {
	enum produce_outcome outcome;
	const char *error; /* a text that lives as long as the process; NULL when confirmed */
	int32_t partition; /* when confirmed, as the next one */
	int64_t offset;
	bool is_time; /* failed because of this host's clock */
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
/* Queues a copy of the record. Its time is that of this call: Kafka compares it with its clock, when it appends the
 * record and later for retention. It could refuse or delete a new record with an earlier time. The outcome in `result`
 * is PRODUCE_OPEN until the brokers have confirmed the record, or until it failed. `result` must exist until then, or
 * until producer_free(). */
void producer_send(
	struct producer *producer, const struct outgoing *record, struct produce_result *result);
/* True when all results are written; waits at most timeout_ms. After a fatal error, records without a result are then
 * PRODUCE_DROPPED. */
bool producer_wait(struct producer *producer, int timeout_ms);
/* A producer with transactions: records are sent between these two calls. producer_commit() waits for the brokers, at
 * most timeout_ms. After its fault, whether the records are committed is unknown, and the producer must be freed. */
int producer_begin(struct producer *producer, struct err *err);
int producer_commit(struct producer *producer, int timeout_ms, struct err *err);
/* True when the producer sends nothing more; see PRODUCER_OUTBOX. */
bool producer_has_ended(const struct producer *producer);
/* The last error of the client about a broker, or "". Borrowed until the next call. */
const char *producer_last_words(const struct producer *producer);

#endif
