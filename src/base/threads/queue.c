/*
 * The bounded queue: a ring, one lock and two conditions. See queue.h. The conditions use the monotonic clock, so that a
 * change of the wall clock neither shortens nor prolongs a wait.
 */
#include "base/threads/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/threads/progress.h"
#include "base/time/clock.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t has_item;
	pthread_cond_t has_room;
	void **items;
	size_t capacity;
	size_t first;
	size_t length;
	bool closed;
};

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr);
}

int queue_new(struct queue **out, size_t capacity, struct err *err)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (queue == NULL)
		return err_memory(err);
	queue->items = calloc(capacity, sizeof(*queue->items));
	if (queue->items == NULL) {
		free(queue);
		return err_memory(err);
	}
	queue->capacity = capacity;
	(void)pthread_mutex_init(&queue->lock, NULL);
	cond_init(&queue->has_item);
	cond_init(&queue->has_room);
	*out = queue;
	return 0;
}

void queue_free(struct queue *queue)
{
	if (queue == NULL)
		return;
	(void)pthread_cond_destroy(&queue->has_room);
	(void)pthread_cond_destroy(&queue->has_item);
	(void)pthread_mutex_destroy(&queue->lock);
	free(queue->items);
	free(queue);
}

/* True if the caller does not want to wait. A wait with a deadline in the past still costs a timer of the kernel and
 * a context switch. */
static int no_time(int64_t timeout_ms)
{
	return timeout_ms <= 0 ? ETIMEDOUT : 0;
}

int queue_push(struct queue *queue, void *item, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	int waited = no_time(timeout_ms);
	int r = 0;

	(void)pthread_mutex_lock(&queue->lock);
	if (queue->length == queue->capacity && waited == 0)
		progress_note(timeout_ms);
	while (queue->length == queue->capacity && !queue->closed && waited == 0)
		waited = pthread_cond_timedwait(&queue->has_room, &queue->lock, &until);
	if (queue->closed) {
		r = QUEUE_CLOSED;
	} else if (queue->length == queue->capacity) {
		r = QUEUE_TIMEOUT;
	} else {
		queue->items[(queue->first + queue->length++) % queue->capacity] = item;
		(void)pthread_cond_signal(&queue->has_item);
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return r;
}

int queue_pop(struct queue *queue, void **item, int64_t timeout_ms)
{
	struct timespec until = clock_deadline(timeout_ms);
	int waited = no_time(timeout_ms);
	int r = 0;

	(void)pthread_mutex_lock(&queue->lock);
	if (queue->length == 0 && waited == 0)
		progress_note(timeout_ms);
	while (queue->length == 0 && !queue->closed && waited == 0)
		waited = pthread_cond_timedwait(&queue->has_item, &queue->lock, &until);
	if (queue->length > 0) {
		*item = queue->items[queue->first];
		queue->first = (queue->first + 1) % queue->capacity;
		queue->length--;
		(void)pthread_cond_signal(&queue->has_room);
	} else {
		r = queue->closed ? QUEUE_CLOSED : QUEUE_TIMEOUT;
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return r;
}

void queue_close(struct queue *queue)
{
	(void)pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	(void)pthread_cond_broadcast(&queue->has_item);
	(void)pthread_cond_broadcast(&queue->has_room);
	(void)pthread_mutex_unlock(&queue->lock);
}

size_t queue_length(struct queue *queue)
{
	size_t length;

	(void)pthread_mutex_lock(&queue->lock);
	length = queue->length;
	(void)pthread_mutex_unlock(&queue->lock);
	return length;
}
