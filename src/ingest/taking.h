/*
 * Taking the rows of partitions that Kafka assigned, and finding out what others still hold of them
 * (rules R6, R12). The ingest thread.
 */
#ifndef INGEST_TAKING_H
#define INGEST_TAKING_H

#include "ingest/state.h"

/* The rows are ours in the table, dispatch hears of them: their partitions enter the state, TAKEN or
 * ADOPTED. FOREIGN_MANY: not yet; to be asked for again. */
int taking_begin(struct ingest *ingest, const struct watermarks *rows, enum partition_state state,
	struct err *err);
/* Takes what was assigned and can be taken now; blocks for the database. */
void taking_step(struct ingest *ingest);

#endif
