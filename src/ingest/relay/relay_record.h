/*
 * Turns an event of the outbox into a record: its key, its value, inboxd's headers and the user's (docs/outbox.md). Pure
 * except for the list of headers. One thread for each JSON stream.
 */
#ifndef INGEST_RELAY_RELAY_RECORD_H
#define INGEST_RELAY_RELAY_RECORD_H

#include "base/buf.h"
#include "ingest/kafka/producer.h"
#include "json/stream.h"
#include "store/pg/rows.h"

struct relay_record_source {
	const struct config *config;
	const struct rows *rows; /* of a page of events */
	int row;
	const char *topic;
	struct json_stream *json; /* reads the payload of structured events */
};

/* The name of the event's topic, appended to the empty `out`: its own, or the one of outbox.topic. False: there is no
 * such name, because the aggregate is missing, or the result is not the name of a topic. */
bool relay_topic_name(const struct outbox_config *outbox, const char *topic, const char *aggregate,
	const char *type, struct buf *out);

/* An upper bound of the record's size in a request without compression. */
size_t relay_record_size(const struct relay_record_source *source);

/* Borrows key and value from the rows or from `scratch`. The caller owns `out->headers` and passes them to
 * producer_send(). FAULT_MEMORY. */
int relay_record_write(const struct relay_record_source *source, struct buf *scratch,
	struct outgoing *out, struct err *err);

#endif
