/*
 * Converts between arrays of struct partition_offset and the lists of librdkafka. Only for files of this folder.
 */
#ifndef INGEST_KAFKA_PARTITION_LIST_H
#define INGEST_KAFKA_PARTITION_LIST_H

#include <librdkafka/rdkafka.h>

#include "ingest/kafka/partition_offset.h"

/* The caller destroys the list. Like librdkafka, it ends the process when there is no memory. */
rd_kafka_topic_partition_list_t *partition_list_of(
	const struct partition_offset *items, size_t count);
/* Borrows the topic from the list. */
struct partition_offset partition_list_item(const rd_kafka_topic_partition_t *item);
/* Copies offsets and errors of the list into the items it was made of. */
void partition_list_answer(
	const rd_kafka_topic_partition_list_t *list, struct partition_offset *items, size_t count);

#endif
