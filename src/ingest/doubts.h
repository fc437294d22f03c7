/*
 * Partitions whose broker would not serve a fetch. The leader may have moved; or the topic was deleted,
 * and may be back by now as another log under the old name, longer than what we have read: librdkafka
 * (2.0, which knows no topic ids) would read on in it in silence. So the last record is looked at again
 * before anything is read on (rule R17).
 *
 * Filled on librdkafka's threads, before a later fetch can succeed; taken by the ingest thread.
 */
#ifndef INGEST_DOUBTS_H
#define INGEST_DOUBTS_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct doubts {
	pthread_mutex_t lock;
	rd_kafka_topic_partition_list_t *list; /* each once */
	atomic_bool any;
};

void doubts_init(struct doubts *doubts);
void doubts_fini(struct doubts *doubts);

/* What librdkafka says in its debug context `topic`: when it is that a fetch has failed, notes of whom. */
void doubts_hear(struct doubts *doubts, const char *facility, const char *text);
/* What was heard since the last time, the caller's to destroy; NULL = nothing. Cheap then. */
rd_kafka_topic_partition_list_t *doubts_take(struct doubts *doubts);

#endif
