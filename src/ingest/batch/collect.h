/*
 * Turns a Kafka record into a message, a reject or a skip, in the current batch. The memory of the
 * record may be freed when the function returns. The ingest thread.
 */
#ifndef INGEST_BATCH_COLLECT_H
#define INGEST_BATCH_COLLECT_H

#include "ingest/state.h"

int collector_init(struct collector *collector, const struct config *config, struct err *err);
void collector_fini(struct collector *collector, const struct config *config);

/* Adds one record to the batch. A record is dropped when its partition does not flow or when it
 * lies before the start offset. COLLECT_RECREATED: the record proves that
 * the topic was recreated (rule R17); its partition must be stopped. FAULT_MEMORY. */
enum { COLLECT_RECREATED = 1 };
int collect_record(struct ingest *ingest, const struct record *from, struct err *err);
/* Every record of the partition below `end->offset` was returned. */
void collect_partition_end(struct ingest *ingest, const struct record *end);
/* True when the batch has reached a configured limit. */
bool collect_is_full(const struct ingest *ingest);

#endif
