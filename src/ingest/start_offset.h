/*
 * Finds the place in Kafka's log for partitions whose row was taken: asks for the ends of the log and
 * the group's offsets, decides (start_offset_policy.h), and says loudly what cannot be known. The ingest thread.
 */
#ifndef INGEST_START_OFFSET_H
#define INGEST_START_OFFSET_H

#include "ingest/state.h"

/* Every TAKEN partition Kafka answers for becomes READING; the others are tried again a second later.
 * Waits up to fifteen seconds when brokers do not answer. */
void start_offset_step(struct ingest *ingest);

#endif
