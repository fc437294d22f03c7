/*
 * See ring.h. One mutex protects `count` and the place of the next span. It is held for the copy of one span and never
 * for a system call, so the loops that add spans wait for less than a microsecond.
 *
 * The reading thread reads spans without the lock. That is safe: between `first` and `first + count` nobody writes, and
 * only the reading thread moves `first`.
 */
#include "trace/ring.h"

#include <pthread.h>
#include <stdlib.h>

struct ring {
	pthread_mutex_t lock;
	size_t capacity;
	size_t first; /* only the reading thread changes it; written under the lock */
	size_t count; /* under the lock */
	struct span spans[];
};

int ring_new(struct ring **out, size_t capacity, struct err *err)
{
	struct ring *ring = calloc(1, sizeof(*ring) + capacity * sizeof(struct span));

	if (ring == NULL)
		return err_memory(err);
	(void)pthread_mutex_init(&ring->lock, NULL);
	ring->capacity = capacity;
	*out = ring;
	return 0;
}

void ring_free(struct ring *ring)
{
	if (ring == NULL)
		return;
	(void)pthread_mutex_destroy(&ring->lock);
	free(ring);
}

size_t ring_put(struct ring *ring, const struct span *span)
{
	size_t count = 0;

	(void)pthread_mutex_lock(&ring->lock);
	if (ring->count < ring->capacity) {
		ring->spans[(ring->first + ring->count) % ring->capacity] = *span;
		count = ++ring->count;
	}
	(void)pthread_mutex_unlock(&ring->lock);
	return count;
}

size_t ring_count(struct ring *ring)
{
	size_t count;

	(void)pthread_mutex_lock(&ring->lock);
	count = ring->count;
	(void)pthread_mutex_unlock(&ring->lock);
	return count;
}

const struct span *ring_at(const struct ring *ring, size_t place)
{
	return &ring->spans[(ring->first + place) % ring->capacity];
}

void ring_release(struct ring *ring, size_t count)
{
	(void)pthread_mutex_lock(&ring->lock);
	ring->first = (ring->first + count) % ring->capacity;
	ring->count -= count;
	(void)pthread_mutex_unlock(&ring->lock);
}
