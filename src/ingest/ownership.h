/*
 * Which partitions this instance owns, and where each of them is read: the assignment by Kafka, the
 * row in inbox_offsets, the decision of start_offset_policy.h, and the flow. The ingest thread.
 */
#ifndef INGEST_OWNERSHIP_H
#define INGEST_OWNERSHIP_H

#include "ingest/state.h"

/* Events of the consumer. */
void ownership_assigned(void *arg, const rd_kafka_topic_partition_list_t *list);
void ownership_revoked(void *arg, const rd_kafka_topic_partition_list_t *list, bool lost);

/* The partition with this name, ready for use; NULL: out of memory, and the fault is reported. */
struct partition *ownership_partition(struct ingest *ingest, const char *topic, int32_t number);
/* Gives up a partition: drops its records in memory and tells dispatch to drop its messages. */
void ownership_let_go(struct ingest *ingest, struct partition *partition);
/* Stops the flow of one partition and sets its state. */
void ownership_stop(struct ingest *ingest, struct partition *partition, enum partition_state state);
/* The row names another owner: drops everything in memory and tells dispatch. The partition is
 * FOREIGN until Kafka revokes it. */
void ownership_lost(struct ingest *ingest, struct partition *partition);
/* The row contains another offset: drops the records in the batch and reads from there. */
void ownership_moved(
	struct ingest *ingest, struct partition *partition, const struct watermark *row);

/* Binds the schema, acquires partitions and decides start offsets as far as necessary. Each request
 * to a server has a time limit of at most five seconds. */
void ownership_step(struct ingest *ingest);
/* Resumes every partition that is ready, unless a hold is set. */
void ownership_flow(struct ingest *ingest);
/* Verifies these partitions again (NULL = all), because librdkafka moved to another offset or
 * because a topic may have been recreated. */
void ownership_recheck(struct ingest *ingest, rd_kafka_topic_partition_list_t *only);

#endif
