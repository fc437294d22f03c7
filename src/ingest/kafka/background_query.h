/*
 * Requests to the brokers about partitions, sent and awaited by a thread of their own. rd_kafka_offsets_for_times() and the
 * other requests of broker_query.h block until the last broker has answered, and drop all answers when one broker does not.
 * A broker can be silent for minutes before librdkafka knows it as lost. Therefore a query is about the partitions of one
 * leader, and the caller chooses how long it waits. So a silent broker delays its own partitions only.
 *
 * The queries do not use a queue of librdkafka: rd_kafka_ListOffsets(), which sends the ends of logs to a queue, exists
 * since version 2.3 only (ADR 39).
 *
 * There is at most one open query of each kind for each leader, so there are few threads. All calls belong to the thread
 * that owns the list; the threads of the queries use only the query. The list must be ended before `kafka` is destroyed.
 */
#ifndef INGEST_KAFKA_BACKGROUND_QUERY_H
#define INGEST_KAFKA_BACKGROUND_QUERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/threads/thread.h"
#include "ingest/kafka/partition_offset.h"
#include "model/identity/topic_log.h"

struct rd_kafka_s; /* of consumer_handle() */

/* What is asked for: a set of parts, in this order. */
enum query_part {
	QUERY_LEADERS = 1, /* the numbers of the brokers that lead the partitions; -1 = none */
	QUERY_GROUP = 2,   /* the offsets of the group; below 0 = none */
	QUERY_IDS = 4,     /* the ids of the topics, before and behind the ends of the logs */
	QUERY_BEGIN = 8,   /* the beginnings of the logs */
	QUERY_END = 16,    /* the ends of the logs */
};

/* About one partition. */
struct query_answer {
	int32_t leader;
	int64_t group;
	int64_t begin;
	int64_t end;
	char topic_id[TOPIC_ID_BYTES]; /* "" = unknown */
	bool other_log;                /* the topic was created again between the requests */
	const char *error; /* static; a request has no answer. NULL = the answer is complete */
};

struct query_request {
	struct rd_kafka_s *kafka;
	unsigned parts;
	int32_t leader; /* of all partitions; -1 = unknown */
};

struct background_query {
	uint64_t id;
	struct query_request request;
	struct partition_offset
		*partitions;          /* owned, with borrowed topics; scratch of its thread */
	struct query_answer *answers; /* in the same order */
	size_t count;
	struct err err;      /* of a request for all partitions; they have an error as well */
	struct err ids_err;  /* the topic ids alone are unknown */
	int64_t answered_ms; /* clock_now_ms() */
	struct thread thread;
	STAILQ_ENTRY(background_query) link;
};

struct background_queries {
	STAILQ_HEAD(, background_query) list;
	uint64_t begun;
};

void background_queries_init(struct background_queries *queries);
/* Begins a query about partitions, of which only topic and number are used. Takes the array, malloc'ed, also on a fault. Its
 * id is `queries->begun`, which this raises. Returns at once. */
int background_query_begin(struct background_queries *queries, const struct query_request *request,
	struct partition_offset *partitions, size_t count, struct err *err);
bool background_query_is_open(
	const struct background_queries *queries, unsigned parts, int32_t leader);
/* Removes a query that has ended from the list and gives it to the caller; NULL = none has ended. */
struct background_query *background_query_take(struct background_queries *queries);
void background_query_free(struct background_query *query);
/* Waits at most timeout_ms until all queries with an id above `after_id` have ended. */
void background_queries_wait(
	struct background_queries *queries, uint64_t after_id, int64_t timeout_ms);
/* Asks all queries to end. A query ends when its present request to a broker has ended. */
void background_queries_stop(struct background_queries *queries);
/* Waits until all queries have ended, and frees them. */
void background_queries_end(struct background_queries *queries);

#endif
