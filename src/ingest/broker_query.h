/*
 * Questions to the brokers that wait for their answer, each with a bound. The thread that polls, but
 * for none of them does it have to be a member of a group.
 */
#ifndef INGEST_BROKER_QUERY_H
#define INGEST_BROKER_QUERY_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* All of these fill `offset` and `err` of each element and wait up to five seconds; FAULT_KAFKA when no answer
 * came for any of them. An offset below 0 from broker_query_committed() = there is none. */
int broker_query_committed(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, struct err *err);
/* The ends of the logs only, waiting no longer than timeout_ms. */
int broker_query_ends(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int timeout_ms, struct err *err);
int broker_query_bounds(rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *low,
	rd_kafka_topic_partition_list_t *high, struct err *err);
/* The first record from this time on, in ms since 1970; an offset below 0 = there is none. */
int broker_query_time(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int64_t time_ms, struct err *err);
/* End of the log as far as fetches have told; -1 = unknown. No request. */
int64_t broker_query_high(rd_kafka_t *kafka, const char *topic, int32_t partition);

/* Waits for the answer, at most timeout_ms. */
int broker_commit_offsets(rd_kafka_t *kafka, const rd_kafka_topic_partition_list_t *list,
	int timeout_ms, struct err *err);

/* The cluster's id, malloc'ed, or NULL when no broker has told within timeout_ms. */
char *broker_query_cluster_id(rd_kafka_t *kafka, int timeout_ms);
/* Asks any broker for anything. True when one answered. */
bool broker_query_reaches_broker(rd_kafka_t *kafka, int timeout_ms);

#endif
