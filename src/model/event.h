/*
 * The CloudEvent a handler receives: the members "event" and "headers" of a delivery, rendered from
 * a stored message (contract section 4 and 7). Pure. One thread per renderer.
 */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include "base/buf.h"
#include "base/err.h"
#include "model/message.h"

struct event_renderer;

int event_renderer_new(struct event_renderer **out, struct err *err);
void event_renderer_free(struct event_renderer *renderer);

/* Appends `"event":{…},"headers":[…]`, without a raw LF or CR. Whatever the message holds, the
 * result is valid UTF-8 JSON. FAULT_MEMORY only, also when `out` meets its limit.
 *
 * A payload that is JSON (strict, at most 512 deep) is `data` byte for byte, whatever content-type
 * says; any other, the empty one included, is `data_base64`; a tombstone has neither. Of a structured
 * CloudEvent the envelope's members come first, as they are written; what inboxd knows and the
 * envelope does not say follows. `headers` has every header that did not become an attribute. */
int event_render(struct event_renderer *renderer, const struct message *message, struct buf *out,
	struct err *err);

#endif
