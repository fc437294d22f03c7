/*
 * Finds the place in Kafka's log for partitions whose row was taken: asks for the ends of the log and
 * the group's offsets, decides (position.h), and says loudly what cannot be known. The ingest thread.
 */
#ifndef INGEST_PLACE_H
#define INGEST_PLACE_H

#include "ingest/state.h"

/* Every TAKEN partition Kafka answers for becomes READING; the others are tried again a second later.
 * Waits up to fifteen seconds when brokers do not answer. */
void place_step(struct ingest *ingest);

#endif
