/*
 * Recognises a structured CloudEvent (Kafka binding 1.0.2) and reads its envelope. Identity and event share these
 * functions, so that they never disagree about a record. Pure.
 */
#ifndef MODEL_EVENT_CLOUDEVENT_H
#define MODEL_EVENT_CLOUDEVENT_H

#include <stdbool.h>

#include "base/err.h"
#include "json/stream.h"

/* True for the name "content-type" in any case. */
bool cloudevent_is_content_type(struct bytes name);
/* True for a content type application/cloudevents…, in any case (RFC 9110). Not for a batch of CloudEvents, which has
 * no id of its own. */
bool cloudevent_is_structured(struct bytes content_type);

/* False: the value, a JSON string as written, breaks the rule that CloudEvents has for this attribute, and a library of
 * CloudEvents may refuse the event. True also for attributes without a rule. Of the times of RFC 3339, those are valid that the
 * standard library of every language reads: T and Z in capitals, at most nine decimals, no leap second. */
bool cloudevent_is_valid(struct bytes name, struct bytes value);

/* The attributes that make up the identity; absent if missing or null. */
struct envelope {
	struct bytes id; /* JSON strings as written */
	struct bytes source;
	struct bytes type;
};

/* JSON_BROKEN: the payload is not a valid JSON object, has no id, or one of the three is not a string or given twice.
 * Also if the name of a member is written with escapes: no attribute needs one, and it could hide a second id.
 * FAULT_MEMORY. */
int cloudevent_read_envelope(
	struct json_stream *stream, struct bytes payload, struct envelope *out, struct err *err);

#endif
