/*
 * The event of a delivery, for a program that does not speak the handler protocol: its attributes as texts, its data,
 * and the whole as JSON. What a program must know of the delivery is added as CloudEvents extension attributes
 * (inboxclaim, inboxattempt, inboxmaxattempts, inboxreplay, inboxconsumer), so that it has the same form in JSON, in the
 * environment and in HTTP headers. If the producer has sent an attribute with such a name, it is left out.
 *
 * One thread. Everything is borrowed from the delivery, or from the event until the next event_read().
 */
#ifndef BRIDGE_EVENT_H
#define BRIDGE_EVENT_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "inboxd/handler.h"
#include "json/stream.h"

#define EVENT_ATTRIBUTES_MAX                                                                       \
	256 /* more than the sidecar accepts in one record's headers usually; others are left out */

struct event_attribute {
	struct bytes name; /* lower-case letters and digits */
	struct bytes text; /* decoded; may hold any character, also NUL */
};

struct event {
	struct json_stream *stream;
	struct event_attribute attributes[EVENT_ATTRIBUTES_MAX];
	size_t count;
	size_t own;         /* where the added attributes begin */
	struct buf scratch; /* decoded texts */
	struct buf json;    /* the whole event with the added attributes, without a line break */
	struct bytes
		data; /* the payload: JSON as it was produced, or decoded bytes; absent = a tombstone */
	bool data_is_json;
};

int event_init(struct event *event, struct err *err);
void event_fini(struct event *event);
/* Reads the event of a delivery. FAULT_MEMORY. */
int event_read(struct event *event, const struct inbox_delivery *delivery, struct err *err);
/* The text of an attribute; absent if the event does not have it. */
struct bytes event_attribute(const struct event *event, const char *name);

#endif
