/*
 * Requests to the brokers that wait for the answer, each with a time limit. The functions work
 * without membership in a group. They must run on the thread that polls `kafka`.
 */
#ifndef INGEST_KAFKA_BROKER_QUERY_H
#define INGEST_KAFKA_BROKER_QUERY_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* These functions fill `offset` and `err` of each element and wait at most five seconds.
 * FAULT_KAFKA: no element got an answer. An offset below 0 from broker_query_committed() means that
 * the group has none. */
int broker_query_committed(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, struct err *err);
/* Only the ends of the logs; waits at most timeout_ms. */
int broker_query_ends(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int timeout_ms, struct err *err);
int broker_query_bounds(rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *low,
	rd_kafka_topic_partition_list_t *high, struct err *err);
/* The first record with this timestamp or a later one, in ms since 1970; an offset below 0 = none. */
int broker_query_time(
	rd_kafka_t *kafka, rd_kafka_topic_partition_list_t *list, int64_t time_ms, struct err *err);
/* The end of the log as known from fetch responses; -1 = unknown. Sends no request. */
int64_t broker_query_high(rd_kafka_t *kafka, const char *topic, int32_t partition);

/* Waits for the answer, at most timeout_ms. */
int broker_commit_offsets(rd_kafka_t *kafka, const rd_kafka_topic_partition_list_t *list,
	int timeout_ms, struct err *err);

/* The id of the cluster, malloc'ed; NULL when no broker sent it within timeout_ms. */
char *broker_query_cluster_id(rd_kafka_t *kafka, int timeout_ms);
/* Sends a metadata request to any broker. True when a broker answered. */
bool broker_query_reaches_broker(rd_kafka_t *kafka, int timeout_ms);

#endif
