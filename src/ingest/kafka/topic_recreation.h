/*
 * Collects the partitions whose fetch a broker refused. Usually the leader has moved. But the topic
 * may also have been deleted and recreated, and may already be longer than the old one. librdkafka
 * 2.0 knows no topic ids and would continue in the new log without notice. Therefore the last
 * record is verified before reading continues (rule R17).
 *
 * Threads of librdkafka fill the list before a later fetch can succeed; the ingest thread takes it.
 */
#ifndef INGEST_KAFKA_TOPIC_RECREATION_H
#define INGEST_KAFKA_TOPIC_RECREATION_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct topic_recreation {
	pthread_mutex_t lock;
	rd_kafka_topic_partition_list_t *list; /* no duplicates */
	atomic_bool any;
};

void topic_recreation_init(struct topic_recreation *recreation);
void topic_recreation_fini(struct topic_recreation *recreation);

/* Reads one log line of librdkafka's debug context `topic`. If it reports a failed fetch, the
 * partition is added. */
void topic_recreation_note(
	struct topic_recreation *recreation, const char *facility, const char *text);
/* The partitions added since the last call; the caller destroys the list. NULL = none. Inexpensive
 * then. */
rd_kafka_topic_partition_list_t *topic_recreation_take(struct topic_recreation *recreation);

#endif
