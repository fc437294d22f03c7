/*
 * Follows the rebalances of Kafka. For partitions that are assigned: acquires the rows in inbox_offsets, decides start
 * offsets, and lets records flow. For partitions that are revoked: commits, releases the rows and gives them up. The
 * ingest thread.
 */
#ifndef INGEST_PARTITIONS_ASSIGNMENT_H
#define INGEST_PARTITIONS_ASSIGNMENT_H

#include "ingest/state.h"

/* Events of the consumer. */
void assignment_assigned(void *arg, const struct partition_offset *items, size_t count);
void assignment_revoked(void *arg, const struct partition_offset *items, size_t count, bool lost);

/* Binds the schema, acquires partitions and decides start offsets as far as necessary. Each request
 * to a server has a time limit of at most five seconds. */
void assignment_step(struct ingest *ingest);
/* Resumes every partition that is ready, unless a hold is set. */
void assignment_flow(struct ingest *ingest);
/* Verifies a partition again, because its topic may have been recreated; or all, because librdkafka moved to
 * another offset. */
void assignment_recheck(void *arg, const char *topic, int32_t number);
void assignment_recheck_all(struct ingest *ingest);

#endif
