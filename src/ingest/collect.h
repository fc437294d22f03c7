/*
 * From a record of Kafka to a message, a reject or a skip in the batch at hand. The record's memory is
 * free again when this returns. The ingest thread.
 */
#ifndef INGEST_COLLECT_H
#define INGEST_COLLECT_H

#include "ingest/state.h"

int collector_init(struct collector *collector, const struct config *config, struct err *err);
void collector_fini(struct collector *collector, const struct config *config);
/* The record as the rules look at it: borrows from `from`, and its headers from the collector until the next
 * call. FAULT_MEMORY. */
int collect_borrow(struct collector *collector, const char *topic, const rd_kafka_message_t *from,
	struct record *out);
/* Looks up what records of a partition need: rules and counters. */
void collect_prepare(struct ingest *ingest, struct partition *partition);

/* Takes one record, or drops it: its partition does not flow, or it lies before the place to read on
 * from. A record that shows another log under the old name (rule R17) sends its partition back to
 * TAKEN. FAULT_MEMORY. */
int collect_record(struct ingest *ingest, const rd_kafka_message_t *from, struct err *err);
/* True when the batch must not grow any more. */
bool collect_is_full(const struct ingest *ingest);

#endif
