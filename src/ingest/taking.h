/*
 * Taking the rows of partitions that Kafka assigned, and finding out what others still hold of them
 * (rules R6, R12). The ingest thread.
 */
#ifndef INGEST_TAKING_H
#define INGEST_TAKING_H

#include "ingest/state.h"

/* Takes what was assigned and can be taken now; blocks for the database. */
void taking_step(struct ingest *ingest);

#endif
