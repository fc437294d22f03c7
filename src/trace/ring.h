/*
 * A bounded ring of spans. Any thread adds spans; one thread reads and releases them. Adding only waits while another
 * thread copies its span; if the ring is full, the span is dropped. A span that was read stays in the ring until it
 * is released, so it can be read and sent again.
 */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <stddef.h>

#include "base/err.h"
#include "trace/span.h"

struct ring;

int ring_new(struct ring **out, size_t capacity, struct err *err);
void ring_free(struct ring *ring);
/* Adds a span. Returns how many are in the ring now; 0: the ring is full, and the span was not added. */
size_t ring_put(struct ring *ring, const struct span *span);
size_t ring_count(struct ring *ring);
/* The span at this index, counted from the oldest; less than ring_count(). Borrowed until it is released. */
const struct span *ring_at(const struct ring *ring, size_t place);
void ring_release(struct ring *ring, size_t count);

#endif
