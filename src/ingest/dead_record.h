/*
 * A dead message as a record for the dead topic: its own key, value and headers, and behind those headers of
 * inboxd that tell why it died and where it came from (docs/operations.md). Pure but for librdkafka's
 * list of headers. Any thread.
 */
#ifndef INGEST_DEAD_RECORD_H
#define INGEST_DEAD_RECORD_H

#include "ingest/producer.h"
#include "store/rows.h"

/* Bare: without value and headers of its own, for a topic that does not take it whole; the table has
 * it. A key beyond 4 KiB is left out, too. */
enum dead_record_form { DEAD_RECORD_WHOLE, DEAD_RECORD_BARE };

struct dead_record_source {
	const struct rows *rows; /* of dead_fetch() */
	int row;
	const char *topic; /* the dead topic */
	const char *group; /* group.id */
};

/* Borrows key and value from the rows; `out->headers` is the caller's, to be given to producer_send(). */
void dead_record_write(
	const struct dead_record_source *source, enum dead_record_form form, struct outgoing *out);

#endif
