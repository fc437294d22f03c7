/*
 * The members of an event: where each value comes from, and the order in which they are written. For event.c only;
 * event.h is the contract. One thread for each rendering.
 */
#ifndef MODEL_EVENT_EVENT_MEMBERS_H
#define MODEL_EVENT_EVENT_MEMBERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "model/event/event_headers.h"
#include "model/message/message.h"

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

/* The event that is being rendered. */
struct rendering {
	const struct message *message;
	struct event_headers *headers;
	struct buf *out;
	bool present[MEMBER_COUNT]; /* the member is written already, or must not be written */
	bool data_is_json;
};

/* The member of that name; MEMBER_EXTENSIONS for any other name. */
enum event_member event_member_of(struct bytes name);
/* Appends `"name":`, with a comma before it unless it is the object's first. */
void event_member_begin(struct rendering *rendering, struct bytes name);
/* Appends every member that is not `present` and has a value. */
void event_members_add(struct rendering *rendering);

#endif
