/*
 * The members of an event, one by one: where each comes from and in which order they are written.
 * Within the layer only; event.h is the contract. One thread per rendering.
 */
#ifndef MODEL_EVENT_MEMBERS_H
#define MODEL_EVENT_MEMBERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "model/event_headers.h"
#include "model/message.h"

enum event_member {
	MEMBER_SPECVERSION,
	MEMBER_ID,
	MEMBER_SOURCE,
	MEMBER_TYPE,
	MEMBER_EXTENSIONS, /* all other attributes */
	MEMBER_TIME,
	MEMBER_DATACONTENTTYPE,
	MEMBER_PARTITIONKEY,
	MEMBER_PARTITIONKEYBASE64,
	MEMBER_KAFKATOPIC,
	MEMBER_KAFKAPARTITION,
	MEMBER_KAFKAOFFSET,
	MEMBER_TRACEPARENT,
	MEMBER_TRACESTATE,
	MEMBER_DATA,
	MEMBER_DATA_BASE64,
	MEMBER_COUNT
};

/* One event on its way. */
struct rendering {
	const struct message *message;
	struct event_headers *headers;
	struct buf *out;
	bool present[MEMBER_COUNT]; /* written, or not to be written */
	bool data_is_json;
};

/* The member of that name; MEMBER_EXTENSIONS for a name of nobody's. */
enum event_member event_member_of(struct bytes name);
/* Appends `"name":`, with a comma before it unless it is the object's first. */
void event_member_begin(struct rendering *rendering, struct bytes name);
/* Appends every member that is not `present` and has something to say. */
void event_members_add(struct rendering *rendering);

#endif
