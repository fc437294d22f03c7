/* Texts of HTTP headers, as the HTTP protocol binding of CloudEvents asks. Pure. */
#ifndef BRIDGE_FORWARD_HEADER_TEXT_H
#define BRIDGE_FORWARD_HEADER_TEXT_H

#include "base/buf.h"
#include "base/bytes.h"

/* Appends a value: percent-encoded are the space, '"', '%', every byte that is not printable ASCII, and the characters
 * of `also`. So no value can end its header. */
void header_text_add(struct buf *out, struct bytes value, const char *also);
/* Appends the idempotency key of an event: source and id, with a colon between them. Different pairs have different
 * keys, because a colon in the source is encoded. */
void header_text_add_idempotency_key(struct buf *out, struct bytes source, struct bytes id);

/* What a traceparent or tracestate adds to a request: the whole entries at its beginning, at most 512 bytes; absent if there
 * are none. W3C Trace Context lets each participant shorten a longer tracestate in this way. */
struct bytes header_text_trace(struct bytes value);

#endif
