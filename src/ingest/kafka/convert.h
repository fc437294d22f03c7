/*
 * Converts between the types of librdkafka and those of the rest of ingest: lists of partitions, and records. Only for
 * files of this folder.
 */
#ifndef INGEST_KAFKA_CONVERT_H
#define INGEST_KAFKA_CONVERT_H

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "ingest/kafka/partition_offset.h"
#include "model/message/record.h"

/* The caller destroys the list. Like librdkafka, it ends the process when there is no memory. */
rd_kafka_topic_partition_list_t *partition_list_of(
	const struct partition_offset *items, size_t count);
/* Borrows the topic from the list. */
struct partition_offset partition_list_item(const rd_kafka_topic_partition_t *item);
/* Copies offsets and errors of the list into the items it was made of. */
void partition_list_answer(
	const rd_kafka_topic_partition_list_t *list, struct partition_offset *items, size_t count);

/* The topic in the answer; NULL = it is not there. */
const struct rd_kafka_metadata_topic *metadata_topic(
	const struct rd_kafka_metadata *metadata, const char *name);

/* A record as librdkafka returned it, and the same record for the rest of ingest. Starts as zeros. */
struct fetched_record {
	rd_kafka_message_t *message; /* owned; NULL = none */
	struct record record;        /* borrows from `message`, and its headers from `headers` */
	struct header *headers;
	size_t header_room;
};

/* Takes the message, describes it in `record`, and destroys the one before. FAULT_MEMORY: there is no
 * record. */
int fetched_record_set(
	struct fetched_record *fetched, rd_kafka_message_t *message, struct err *err);
/* Destroys the message, if there is one. */
void fetched_record_clear(struct fetched_record *fetched);
void fetched_record_fini(struct fetched_record *fetched);

#endif
