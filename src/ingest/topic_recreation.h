/*
 * Partitions whose broker would not serve a fetch. The leader may have moved; or the topic was deleted,
 * and may be back by now as another log under the old name, longer than what we have read: librdkafka
 * (2.0, which knows no topic ids) would read on in it in silence. So the last record is looked at again
 * before anything is read on (rule R17).
 *
 * Filled on librdkafka's threads, before a later fetch can succeed; taken by the ingest thread.
 */
#ifndef INGEST_TOPIC_RECREATION_H
#define INGEST_TOPIC_RECREATION_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct topic_recreation {
	pthread_mutex_t lock;
	rd_kafka_topic_partition_list_t *list; /* each once */
	atomic_bool any;
};

void topic_recreation_init(struct topic_recreation *recreation);
void topic_recreation_fini(struct topic_recreation *recreation);

/* What librdkafka says in its debug context `topic`: when it is that a fetch has failed, notes of whom. */
void topic_recreation_hear(
	struct topic_recreation *recreation, const char *facility, const char *text);
/* What was heard since the last time, the caller's to destroy; NULL = nothing. Cheap then. */
rd_kafka_topic_partition_list_t *topic_recreation_take(struct topic_recreation *recreation);

#endif
