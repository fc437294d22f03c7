/*
 * Which partitions are ours, and where each is read on from: assignment by Kafka, the row in
 * inbox_offsets, the decision of start_offset_policy.h, and the flow. The ingest thread.
 */
#ifndef INGEST_OWNERSHIP_H
#define INGEST_OWNERSHIP_H

#include "ingest/state.h"

/* Events of the consumer. */
void ownership_assigned(void *arg, const rd_kafka_topic_partition_list_t *list);
void ownership_revoked(void *arg, const rd_kafka_topic_partition_list_t *list, bool lost);

/* The partition of that name, ready for use; NULL: no memory, and the fault is reported. */
struct partition *ownership_partition(struct ingest *ingest, const char *topic, int32_t number);
/* It is not ours any more: everything of it in memory is void, dispatch is told. */
void ownership_let_go(struct ingest *ingest, struct partition *partition);
/* Stops the flow of one partition and puts it into another state. */
void ownership_stop(struct ingest *ingest, struct partition *partition, enum partition_state state);
/* Our row is another's: everything of it in memory is void, dispatch is told. Waits for Kafka. */
void ownership_lost(struct ingest *ingest, struct partition *partition);
/* The row says to read from elsewhere: what is in the batch of it is void. */
void ownership_moved(
	struct ingest *ingest, struct partition *partition, const struct watermark *row);

/* Binds the schema, takes rows and decides places, as far as anything is to be done and the servers
 * answer; never waits for one that does not beyond its bound (five seconds). */
void ownership_step(struct ingest *ingest);
/* Lets everything flow that may. */
void ownership_flow(struct ingest *ingest);
/* librdkafka lost its place in a log, or a log may be another one: these partitions look again; NULL =
 * all. */
void ownership_recheck(struct ingest *ingest, rd_kafka_topic_partition_list_t *only);

#endif
