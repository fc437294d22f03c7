/*
 * A bounded ring of spans: any thread puts, one thread looks and releases. A put waits for nothing but another
 * put's copy; when the ring is full the span is not taken. What was looked at stays in place until it is released,
 * so it can be looked at again.
 */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <stddef.h>

#include "base/err.h"
#include "trace/span.h"

struct ring;

int ring_new(struct ring **out, size_t capacity, struct err *err);
void ring_free(struct ring *ring);
/* How many are in it now; 0: it was full. */
size_t ring_put(struct ring *ring, const struct span *span);
size_t ring_count(struct ring *ring);
/* The span at that place from the oldest, which is less than ring_count(). Borrowed until released. */
const struct span *ring_at(const struct ring *ring, size_t place);
void ring_release(struct ring *ring, size_t count);

#endif
