/*
 * The end of a connection: its deliveries are cancelled, because the sidecar delivers them again, and the next
 * attempt to connect is put off. The program keeps the deliveries that it has until it calls their verdicts.
 */
#include <sys/random.h>
#include <time.h>

#include "client/handler.h"

int64_t ih_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t ih_due_ms(int64_t timeout_ms)
{
	const int64_t now_ms = ih_now_ms();

	return timeout_ms < INT64_MAX - now_ms ? now_ms + timeout_ms : INT64_MAX;
}

void ih_show(struct inbox_handler *handler, struct inbox_delivery *delivery)
{
	TAILQ_REMOVE(&handler->ready, delivery, list);
	TAILQ_INSERT_TAIL(&handler->open, delivery, list);
	if (delivery->batch != NULL)
		delivery->batch->ready--;
}

void ih_release(struct inbox_delivery *delivery)
{
	struct inbox_handler *handler = delivery->handler;
	struct ih_batch *batch = delivery->batch;

	/* The batch lives as long as one of its deliveries is open. */
	if (batch != NULL && --batch->open == 0)
		ih_batch_free(batch);
	if (handler->current == delivery)
		handler->current = NULL;
	TAILQ_REMOVE(&handler->open, delivery, list);
	ih_pool_give(&handler->pool, delivery);
}

static void cut_off(struct inbox_delivery *delivery)
{
	if (delivery->cancelled == NULL)
		delivery->cancelled = "connection_lost";
	if (delivery->batch != NULL)
		delivery->batch->lost = true;
}

/* Full jitter: many handlers that lost the same sidecar must not reconnect at the same time. */
static int64_t next_delay_ms(const struct ih_backoff *backoff)
{
	int64_t bound = backoff->first_ms;
	uint64_t random = 0;

	for (int i = 0; i < backoff->failures && bound < backoff->max_ms; i++)
		bound *= 2;
	if (bound > backoff->max_ms)
		bound = backoff->max_ms;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = (uint64_t)ih_now_ms(); /* early in the boot of a machine */
	return (int64_t)(random % (uint64_t)(bound + 1));
}

void ih_connection_lost(struct inbox_handler *handler, const char *why)
{
	struct inbox_delivery *delivery;
	int64_t delay_ms;

	/* The program has not seen the ready ones. Those it has seen stay until their verdicts, which go nowhere. */
	while ((delivery = TAILQ_FIRST(&handler->ready)) != NULL) {
		ih_show(handler, delivery);
		cut_off(delivery);
		ih_release(delivery);
	}
	TAILQ_FOREACH (delivery, &handler->open, list)
		cut_off(delivery);
	ih_wire_close(&handler->wire);
	handler->pace.held_us = 0;
	if (handler->state >= IH_DRAINING) {
		handler->state = IH_CLOSED;
		return;
	}
	/* A sidecar may end each connection after its hello: then the delays grow. */
	if (handler->state == IH_READY && ih_now_ms() >= handler->due_ms)
		handler->backoff.failures = 0;
	handler->state = IH_DOWN;
	delay_ms = next_delay_ms(&handler->backoff);
	handler->backoff.failures++;
	if (handler->backoff.since_ms == 0)
		handler->backoff.since_ms = ih_now_ms();
	handler->due_ms = ih_now_ms() + delay_ms;
	ih_fail(handler, 0, "%s; connecting again in %lld ms", why, (long long)delay_ms);
	ih_log(handler, "%s", handler->words);
}
