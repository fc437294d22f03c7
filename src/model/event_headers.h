/*
 * The stored headers of a message, sorted into what an event takes from them and what stays a
 * header. Within the layer only; one thread per struct.
 *
 * A ce_* header becomes the attribute behind its prefix when its name is [a-z0-9]+, its value is
 * text and the attribute is not one inboxd sets itself; any other stays a header, so that nothing is
 * lost. The last value of a repeated one counts.
 */
#ifndef MODEL_EVENT_HEADERS_H
#define MODEL_EVENT_HEADERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "model/json_stream.h"

/* More ce_* names than this stay headers: looking names up stays cheap whatever arrives. */
#define EVENT_MAX_ATTRIBUTES 64

struct attribute {
	struct bytes name;  /* without ce_ */
	struct bytes value; /* JSON string as written, as are those below */
	bool used;          /* has its place in the event already */
};

struct event_headers {
	struct attribute attributes[EVENT_MAX_ATTRIBUTES];
	size_t count;
	struct bytes content_type; /* absent = none, as the next two */
	struct bytes traceparent;
	struct bytes tracestate;
	struct buf rest; /* JSON array of the pairs that stay; may hold LF where the text did */
};

void event_headers_fini(struct event_headers *headers);

/* Reads the JSON the table keeps, be it headers_encode()'s or jsonb's. Slices borrow from `text`.
 * What is not such JSON counts as no headers. FAULT_MEMORY. */
int event_headers_read(struct event_headers *headers, struct json_stream *stream, struct bytes text,
	struct err *err);

/* The attribute of that name, or NULL. */
struct attribute *event_headers_attribute(struct event_headers *headers, struct bytes name);

#endif
