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
 * result is valid UTF-8 JSON: data that is not goes as data_base64. FAULT_MEMORY only. */
int event_render(struct event_renderer *renderer, const struct message *message, struct buf *out,
	struct err *err);

#endif
