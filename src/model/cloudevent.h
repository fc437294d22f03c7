/*
 * What identity and event must agree on about CloudEvents over Kafka (binding 1.0.2): when a record
 * is in structured mode, and what its envelope looks like. Pure.
 */
#ifndef MODEL_CLOUDEVENT_H
#define MODEL_CLOUDEVENT_H

#include <stdbool.h>

#include "base/err.h"
#include "model/json_stream.h"

/* True for the name "content-type" in any case. */
bool cloudevent_is_content_type(struct bytes name);
/* True for a content type application/cloudevents…, but not for a batch of them: a batch has no id
 * of its own. Media types ignore case (RFC 9110). */
bool cloudevent_is_structured(struct bytes content_type);

/* The attributes identity is made of; absent when not there or null. */
struct envelope {
	struct bytes id; /* JSON strings as written */
	struct bytes source;
	struct bytes type;
};

/* JSON_BROKEN: not an object of valid JSON, no id, one of the three not a string or there twice, or
 * a member's name is written with escapes (no attribute's name needs one, and it could hide a second
 * id). FAULT_MEMORY. */
int cloudevent_read_envelope(
	struct json_stream *stream, struct bytes payload, struct envelope *out, struct err *err);

#endif
