/*
 * Sorts the stored headers of a message into those that become attributes of the event and those that stay headers. For
 * event.c only; one thread for each struct.
 *
 * A ce_NAME header becomes the attribute NAME if NAME matches [a-z0-9]+, the value is text, and inboxd does not set
 * this attribute itself. Every other header stays a header, so nothing is lost. Of a repeated ce_ header the last
 * value counts.
 */
#ifndef MODEL_EVENT_EVENT_HEADERS_H
#define MODEL_EVENT_EVENT_HEADERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "json/stream.h"

/* Further ce_ headers stay headers. The limit bounds the time to look up a name. */
#define EVENT_MAX_ATTRIBUTES 64

struct attribute {
	struct bytes name;  /* without ce_ */
	struct bytes value; /* JSON string as written, as are those below */
	bool used;          /* it is in the event already */
};

struct event_headers {
	struct attribute attributes[EVENT_MAX_ATTRIBUTES];
	size_t count;
	struct bytes content_type; /* absent = none, as the next two */
	struct bytes traceparent;
	struct bytes tracestate;
	struct buf
		rest; /* JSON array of the headers that stay; may contain LF like the stored text */
};

void event_headers_fini(struct event_headers *headers);

/* Reads the JSON of the table, as headers_encode() wrote it or as jsonb prints it. The result borrows from `text`.
 * Other JSON counts as no headers. FAULT_MEMORY. */
int event_headers_read(struct event_headers *headers, struct json_stream *stream, struct bytes text,
	struct err *err);

/* The attribute of that name, or NULL. */
struct attribute *event_headers_attribute(struct event_headers *headers, struct bytes name);

#endif
