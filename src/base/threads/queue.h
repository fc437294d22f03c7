/*
 * A bounded first-in first-out queue of pointers between threads. Any thread may push or pop. The queue does not own
 * the items. Closing it wakes all threads that wait; the items in it can still be popped.
 */
#ifndef BASE_THREADS_QUEUE_H
#define BASE_THREADS_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct queue;

enum { QUEUE_TIMEOUT = 1, QUEUE_CLOSED = 2 };

int queue_new(struct queue **out, size_t capacity, struct err *err);
void queue_free(struct queue *queue);
/* Waits up to timeout_ms for room. 0, QUEUE_TIMEOUT or QUEUE_CLOSED; after the last two the caller still owns the
 * item. */
int queue_push(struct queue *queue, void *item, int64_t timeout_ms);
/* Waits up to timeout_ms for an item. 0, QUEUE_TIMEOUT or QUEUE_CLOSED (closed and empty). */
int queue_pop(struct queue *queue, void **item, int64_t timeout_ms);
void queue_close(struct queue *queue);
size_t queue_length(struct queue *queue);

#endif
