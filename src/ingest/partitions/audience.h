/*
 * The audience of a partition: the consumers for which its messages are stored. Every known consumer has a stream of
 * each partition; it is in the audience if it wants the topic. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_AUDIENCE_H
#define INGEST_PARTITIONS_AUDIENCE_H

#include "ingest/state.h"

void audience_fini(struct audiences *audiences);

/* Notes in the table that this instance lists its consumers; the first time with their definitions. Workers repeat it
 * (handler_memory.c). */
int audience_keep(struct ingest *ingest, struct err *err);
/* Reads the known consumers. AUDIENCE_GROWN: there are new ones, so all partitions must be acquired again. Called after
 * partitions were taken, too: a partition must not fall back behind a consumer for which another instance has stored its
 * messages. */
enum { AUDIENCE_GROWN = 1 };
int audience_read(struct ingest *ingest, struct err *err);
/* If an epoch was raised: compares the names of the consumers with those at the start of the instance run, which ends if they differ.
 * Call it before the next batch is stored. */
int audience_check_names(struct ingest *ingest, struct err *err);
/* Rows of the partition may wait in the table, for any consumer. */
void audience_dirty(struct ingest *ingest, const struct partition *partition);
/* Gives the partition a stream for each known consumer. FAULT_MEMORY. */
int audience_of(struct ingest *ingest, struct partition *partition, struct err *err);

#endif
