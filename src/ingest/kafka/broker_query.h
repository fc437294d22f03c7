/*
 * Requests to the brokers that wait for the answer, each with a time limit. The functions work without membership in a
 * group. Any thread may call them. A thread that others rely on asks about partitions with background_query.h.
 */
#ifndef INGEST_KAFKA_BROKER_QUERY_H
#define INGEST_KAFKA_BROKER_QUERY_H

#include <stdbool.h>

#include "base/err.h"
#include "ingest/kafka/partition_offset.h"

struct rd_kafka_s; /* of consumer_handle() or probe_handle() */

/* Fills `offset` and `error` of each item with the group's offset; below 0: the group has none. Waits at
 * most five seconds. FAULT_KAFKA: no item got an answer. */
int broker_query_committed(
	struct rd_kafka_s *kafka, struct partition_offset *items, size_t count, struct err *err);
/* The same with offsets of the logs: BROKER_LOG_BEGIN, BROKER_LOG_END, or the first record with this timestamp
 * (ms since 1970) or a later one, below 0: none. Waits at most timeout_ms. */
#define BROKER_ANSWER_MS 5000
#define BROKER_LOG_END   (-1LL)
#define BROKER_LOG_BEGIN (-2LL)
struct log_query {
	int64_t which;
	int timeout_ms;
};
int broker_query_log(struct rd_kafka_s *kafka, struct log_query query,
	struct partition_offset *items, size_t count, struct err *err);
/* The end of the log as known from fetch responses; -1 = unknown. Sends no request. */
int64_t broker_query_high(struct rd_kafka_s *kafka, const char *topic, int32_t partition);

/* Commits the offsets and waits for the answer, at most timeout_ms. */
int broker_commit_offsets(struct rd_kafka_s *kafka, const struct partition_offset *items,
	size_t count, int timeout_ms, struct err *err);

/* The id of the cluster, malloc'ed; NULL when no broker sent it within timeout_ms. */
char *broker_query_cluster_id(struct rd_kafka_s *kafka, int timeout_ms);
/* Calls `visit` for each topic that a broker lists. FAULT_KAFKA: none answered within timeout_ms. */
typedef int topic_visit(void *arg, const char *topic, int partitions, struct err *err);
int broker_query_topics(
	struct rd_kafka_s *kafka, int timeout_ms, topic_visit *visit, void *arg, struct err *err);
/* Fills `offset` of each item with the number of the broker that leads it, and `error` if there is none. FAULT_KAFKA: no
 * broker answered within timeout_ms; then it does what broker_bootstrap_again() does. */
int broker_query_leaders(struct rd_kafka_s *kafka, int timeout_ms, struct partition_offset *items,
	size_t count, struct err *err);
/* Sends a request to each broker that leads one of the partitions, and awaits no answer. It wakes the threads of librdkafka that serve
 * these brokers. Changes the offsets of the list. */
struct rd_kafka_topic_partition_list_s;
void broker_wake_leaders(
	struct rd_kafka_s *kafka, struct rd_kafka_topic_partition_list_s *partitions);
/* Gives the client the brokers of bootstrap.servers again, after a request that no broker answered. A broker that starts
 * or stops can answer with a list of no brokers. librdkafka 2.10 and later then forgets all brokers, and never connects
 * again by itself (librdkafka issue 5301). No effect on brokers that the client still has. */
void broker_bootstrap_again(struct rd_kafka_s *kafka);

#endif
