/*
 * Taking the rows of partitions that Kafka assigned, and finding out what others still hold of them
 * (rules R6, R12). The ingest thread.
 */
#ifndef INGEST_ACQUIRE_H
#define INGEST_ACQUIRE_H

#include "ingest/state.h"

/* The rows were just made ours in the table; takes them. When what others hold is found, dispatch hears of it and the
 * partitions enter the state, TAKEN or ADOPTED, unless they were revoked or taken anew since. */
int acquire_begin(struct ingest *ingest, struct watermarks *rows, enum partition_state state,
	struct err *err);
/* Takes what was assigned and can be taken now, and goes on with what is being taken for a slice of time; blocks for
 * the database. */
void acquire_step(struct ingest *ingest);
/* There is more to be looked at: the next round should come soon. */
bool acquire_is_under_way(const struct ingest *ingest);
/* The connection is another one, perhaps to another server: all of them are to be taken again. */
void acquire_drop_all(struct ingest *ingest);

#endif
