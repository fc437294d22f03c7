/*
 * Turns a dead message into a record for the dead topic: its own key, value and headers, followed
 * by inboxd's headers with the reason and the origin (docs/administration.md). Pure except for
 * the list of headers. Any thread.
 */
#ifndef INGEST_DEAD_TOPIC_DEAD_RECORD_H
#define INGEST_DEAD_TOPIC_DEAD_RECORD_H

#include "ingest/kafka/producer.h"
#include "store/pg/rows.h"

/* BARE: without value and original headers, for a topic that refuses the whole record; the table
 * still has them. A key above 4 KiB is omitted as well. */
enum dead_record_form { DEAD_RECORD_WHOLE, DEAD_RECORD_BARE };

struct dead_record_source {
	const struct rows *rows; /* of dead_fetch() */
	int row;
	const char *topic; /* the dead topic */
	const char *group; /* group.id */
};

/* Borrows key and value from the rows. The caller owns `out->headers` and passes them to
 * producer_send(). */
void dead_record_write(
	const struct dead_record_source *source, enum dead_record_form form, struct outgoing *out);

#endif
