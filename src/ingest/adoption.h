/*
 * Partitions that nobody is assigned although messages of them wait: the topic was dropped from the
 * configuration, or Kafka is away for long. Whoever has a handler for them adopts them, for dispatch
 * only; who is assigned them later takes them as any other (rule R6). The ingest thread.
 */
#ifndef INGEST_ADOPTION_H
#define INGEST_ADOPTION_H

#include "ingest/state.h"

/* Every few seconds: adopts, and gives up what is wanted here no more or was taken by another. */
void adoption_step(struct ingest *ingest);
/* Gives up all of them, at a stop. Best effort: the row of an instance that is gone binds nobody. */
void adoption_end(struct ingest *ingest);

#endif
