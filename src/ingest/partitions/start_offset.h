/*
 * Finds the start offset of acquired partitions: asks for the ends of the log and for the group's
 * offsets, decides with start_offset_policy.h, and logs recreated topics and gaps. The ingest
 * thread.
 */
#ifndef INGEST_PARTITIONS_START_OFFSET_H
#define INGEST_PARTITIONS_START_OFFSET_H

#include "ingest/state.h"

/* A TAKEN partition becomes READING when Kafka has answered for it; the others are tried again one
 * second later. Waits up to fifteen seconds when brokers do not answer. */
void start_offset_step(struct ingest *ingest);

#endif
