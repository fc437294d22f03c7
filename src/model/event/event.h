/*
 * The CloudEvent that a handler receives: the members "event" and "headers" of a delivery, rendered from a stored
 * message (contract, sections 4 and 7). Pure. One thread for each renderer.
 */
#ifndef MODEL_EVENT_EVENT_H
#define MODEL_EVENT_EVENT_H

#include "base/buf.h"
#include "base/err.h"
#include "model/message/message.h"

struct event_renderer;

int event_renderer_new(struct event_renderer **out, struct err *err);
void event_renderer_free(struct event_renderer *renderer);

/* Appends `"event":{…},"headers":[…]`, without a raw LF or CR. The result is valid UTF-8 JSON for every message. The
 * only fault is FAULT_MEMORY, which also means that `out` reached its limit.  A payload that is strict JSON, at most
 * 512 levels deep, becomes `data` byte for byte, whatever the content-type is. Any other payload, also the empty one,
 * becomes `data_base64`. A tombstone has neither. Of a structured CloudEvent, the members of the envelope come first,
 * as they are written, and then the members that are missing in it. `headers` contains every header that did not
 * become an attribute. */
int event_render(struct event_renderer *renderer, const struct message *message, struct buf *out,
	struct err *err);

#endif
