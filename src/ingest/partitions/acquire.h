/*
 * Acquires the partitions that Kafka assigned: makes this instance the owner of their rows in
 * inbox_offsets, and finds the rows that other instances still hold of them (rules R6, R12). A
 * partition is delivered only after that search, because a new owner must not overtake a message
 * that the previous owner is still processing. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_ACQUIRE_H
#define INGEST_PARTITIONS_ACQUIRE_H

#include "ingest/state.h"

/*
 * Starts the search for partitions whose rows this instance has just taken; takes `rows`. When the
 * search is complete, dispatch receives the partitions together with the rows of others, and the
 * partitions enter `state`, TAKEN or ADOPTED. A partition that was revoked or taken again in the
 * meantime is left out.
 */
int acquire_begin(struct ingest *ingest, struct watermarks *rows, enum partition_state state,
	struct err *err);

#endif
