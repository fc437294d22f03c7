/*
 * What changes in memory when this instance gets or loses a partition: the records in the batch, the lag, the
 * admission, and what dispatch holds. rebalance.c, adoption.c and db_outage.c decide when. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_OWNERSHIP_H
#define INGEST_PARTITIONS_OWNERSHIP_H

#include "ingest/state.h"

/* The partition with this name, ready for use; NULL: out of memory, and the fault is reported. */
struct partition *ownership_partition(struct ingest *ingest, const char *topic, int32_t number);
/* Drops the records of a partition from the batch. */
void ownership_forget(struct ingest *ingest, struct partition *partition);
/* Kafka does not hear from this instance, or the other way round. The row in the table is still ours, so that nobody
 * else claims rows of the partition: it is adopted, and its stored messages need not wait for Kafka (rule R6). A new
 * owner holds back what this instance has claimed (rule R12). */
void ownership_keep(struct ingest *ingest, struct partition *partition);
/* Gives up a partition: drops its records in memory and tells dispatch to drop its messages. */
void ownership_let_go(struct ingest *ingest, struct partition *partition);
/* Gives up a partition that this instance still owns, to acquire it again: at once, or if it is adopted, when its messages
 * have waited for a lease. */
void ownership_take_again(struct ingest *ingest, struct partition *partition);
/* The row names another owner: drops everything in memory and tells dispatch. The partition is
 * FOREIGN until Kafka revokes it. */
void ownership_lost(struct ingest *ingest, struct partition *partition);
/* The row contains another offset: drops the records in the batch and reads from there. */
void ownership_moved(
	struct ingest *ingest, struct partition *partition, const struct watermark *row);

#endif
