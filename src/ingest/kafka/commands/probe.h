/*
 * A consumer for one request of the command line. It joins no group and commits nothing. It keeps
 * librdkafka's error messages until the caller asks for them. Each call blocks for at most the time
 * given below. One thread.
 */
#ifndef INGEST_KAFKA_COMMANDS_PROBE_H
#define INGEST_KAFKA_COMMANDS_PROBE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "model/message/record.h"

struct probe;
struct rd_kafka_s;
struct rd_kafka_metadata;

enum probe_kind {
	PROBE_PLAIN,
	PROBE_TO_THE_END, /* probe_poll() returns the end of a partition */
	PROBE_UNCOMMITTED, /* also sees records of open transactions, whatever the configuration says */
};
/* Does not wait for a broker, but for a token (token_cache.h), up to 25 seconds. FAULT_CONFIG, FAULT_KAFKA,
 * FAULT_INTERNAL. */
int probe_open(
	struct probe **out, const struct config *config, enum probe_kind kind, struct err *err);
/* Accepts NULL. */
void probe_close(struct probe *probe);
/* For the requests of broker_query.h. */
struct rd_kafka_s *probe_handle(const struct probe *probe);

/* Asks for all topics and brokers. Waits up to ten seconds, less when no broker can be reached. The caller
 * destroys the result with rd_kafka_metadata_destroy(). FAULT_KAFKA. */
int probe_metadata(struct probe *probe, const struct rd_kafka_metadata **out, struct err *err);
/* The id of the cluster, malloc'ed, or NULL; the same time limit. */
char *probe_cluster_id(struct probe *probe);
/* Sets FAULT_KAFKA: no broker did `what` (for example "answered"), the reason of librdkafka or else
 * `otherwise`, and advice if the cause is known. */
int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err);

/* `broker` is "HOST:PORT/ID:", as the metadata have it. True if a connection to it has failed since the start. */
bool probe_broker_failed(struct probe *probe, const char *broker);
/* Sets FAULT_KAFKA: this broker, which the metadata name, did not answer; with the reason and advice. */
int probe_unreachable(struct probe *probe, const char *broker, struct err *err);

/* Asks the coordinator of the group for an offset; any topic will do. Waits up to 15 seconds, less when the group is
 * refused. FAULT_KAFKA, with the reason and advice. */
int probe_coordinator(struct probe *probe, const char *topic, struct err *err);

/* The number of partitions of the topic. FAULT_CHECK: the topic does not exist, or it lacks this
 * partition (-1: any). FAULT_KAFKA. Waits up to ten seconds. */
int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err);

struct log_ends {
	int64_t low;  /* the first offset of the log */
	int64_t high; /* the offset behind its last record */
};
/* Waits up to ten seconds. FAULT_KAFKA. */
int probe_ends(struct probe *probe, const char *topic, int32_t partition, struct log_ends *out,
	struct err *err);
/* Reads this partition from `offset` on, until probe_stop_reading(). FAULT_KAFKA. */
int probe_read(
	struct probe *probe, const char *topic, int32_t partition, int64_t offset, struct err *err);
void probe_stop_reading(struct probe *probe);
/* The next record, borrowed until the next call; the results of consumer_poll(). FAULT_KAFKA,
 * FAULT_MEMORY. */
int probe_poll(struct probe *probe, int timeout_ms, const struct record **out, struct err *err);

#endif
