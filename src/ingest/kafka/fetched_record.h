/*
 * A record as librdkafka returned it, and the same record for the rest of ingest. One thread. Only for files of this
 * folder.
 */
#ifndef INGEST_KAFKA_FETCHED_RECORD_H
#define INGEST_KAFKA_FETCHED_RECORD_H

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "model/message/record.h"

/* Starts as zeros. */
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
