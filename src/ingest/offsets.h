/*
 * Kafka's side of the watermarks: commits of what the database has, never ahead of it, and the lag.
 * The ingest thread.
 */
#ifndef INGEST_OFFSETS_H
#define INGEST_OFFSETS_H

#include "ingest/state.h"

/* Sends what is stored and not committed yet, at most every 200 ms. */
void offsets_step(struct ingest *ingest);
/* The same for these partitions (NULL = all), waiting for the answer. */
void offsets_commit_some(
	struct ingest *ingest, const rd_kafka_topic_partition_list_t *only, int timeout_ms);
/* Event of the consumer: to be sent again. */
void offsets_not_committed(void *arg, const rd_kafka_topic_partition_t *place);

/* Of partitions that are read, from what fetches told; of paused ones by asking, at most every ten seconds. */
void offsets_show_lag(struct ingest *ingest);
void offsets_drop_lag(struct ingest *ingest, const struct partition *partition);

#endif
