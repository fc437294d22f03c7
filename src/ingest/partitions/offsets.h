/*
 * Commits to Kafka the offsets that the database has stored, never higher ones, and measures the
 * lag. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_OFFSETS_H
#define INGEST_PARTITIONS_OFFSETS_H

#include "ingest/state.h"

/* Sends stored offsets that are not committed yet, at most every 200 ms. */
void offsets_step(struct ingest *ingest);
/* Commits the partitions that are due, or all, and waits for the answer. */
void offsets_commit_due(struct ingest *ingest, int timeout_ms);
void offsets_commit_all(struct ingest *ingest, int timeout_ms);
/* Event of the consumer: the offset must be sent again. */
void offsets_not_committed(void *arg, const struct partition_offset *item);

/* Updates the lag: of flowing partitions from fetch responses, of paused ones with a request at
 * most every ten seconds. */
void offsets_show_lag(struct ingest *ingest);
void offsets_drop_lag(struct ingest *ingest, const struct partition *partition);

#endif
