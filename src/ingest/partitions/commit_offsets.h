/*
 * The part of commit_offsets.c that a rebalance needs. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_COMMIT_OFFSETS_H
#define INGEST_PARTITIONS_COMMIT_OFFSETS_H

#include "ingest/state.h"

/* Commits the offsets of the partitions that are due, and waits for the answer. */
void commit_offsets_due(struct ingest *ingest, int timeout_ms);

#endif
