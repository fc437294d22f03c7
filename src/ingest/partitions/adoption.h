/*
 * Adopts partitions that are assigned to no member although messages of them wait, for example
 * because a topic was removed from the configuration, or because Kafka is unreachable for a long
 * time. An instance that has a handler for such messages becomes the owner, for dispatch only. A
 * later assignment takes the partition away like any other (rule R6). The ingest thread.
 */
#ifndef INGEST_PARTITIONS_ADOPTION_H
#define INGEST_PARTITIONS_ADOPTION_H

#include "ingest/state.h"

/* Runs every few seconds: adopts partitions, and gives up partitions that no handler here accepts
 * or that another instance has taken. */
void adoption_step(struct ingest *ingest);
/* Gives up all adopted partitions at a stop. Best effort: a row that names an ended instance does
 * not stop the next owner. */
void adoption_end(struct ingest *ingest);

#endif
