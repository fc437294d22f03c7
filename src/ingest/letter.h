/*
 * A dead message as a record for the dead topic: its own key, value and headers, and behind those headers of
 * inboxd that tell why it died and where it came from (docs/operations.md). Pure but for librdkafka's
 * list of headers. Any thread.
 */
#ifndef INGEST_LETTER_H
#define INGEST_LETTER_H

#include "ingest/producer.h"
#include "store/rows.h"

/* Bare: without value and headers of its own, for a topic that does not take it whole; the table has
 * it. A key beyond 4 KiB is left out, too. */
enum letter_form { LETTER_WHOLE, LETTER_BARE };

struct letter_source {
	const struct rows *rows; /* of dead_fetch() */
	int row;
	const char *topic; /* the dead topic */
	const char *group; /* group.id */
};

/* Borrows key and value from the rows; `out->headers` is the caller's, to be given to producer_send(). */
void letter_write(const struct letter_source *source, enum letter_form form, struct outgoing *out);

#endif
