/*
 * The connection and its states (see handler.h). A line of the sidecar is read, executed (lines.c), and only then
 * removed from the buffer. If there is no memory half-way, the same line is read again.
 *
 * The sidecar is not an enemy, but it can have faults: a line that violates the protocol ends the connection. Its
 * open messages are delivered again.
 */
#include "client/handler.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
	GREETING_MS = 10000, /* how long the answer to hello may take */
	DRAINING_MS = 10000, /* how long the answer to drain may take after the last verdict */
};

int64_t ih_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Full jitter: many handlers that lost the same sidecar must not reconnect at the same time. */
static int64_t next_delay_ms(struct inbox_handler *handler)
{
	int64_t bound = handler->backoff_ms;
	uint64_t random = 0;

	for (int i = 0; i < handler->failures && bound < handler->backoff_max_ms; i++)
		bound *= 2;
	if (bound > handler->backoff_max_ms)
		bound = handler->backoff_max_ms;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = (uint64_t)ih_now_ms();
	return (int64_t)(random % (uint64_t)(bound + 1));
}

void ih_session_show(struct inbox_handler *handler, struct inbox_delivery *delivery)
{
	TAILQ_REMOVE(&handler->ready, delivery, list);
	TAILQ_INSERT_TAIL(&handler->open, delivery, list);
	if (delivery->batch != NULL)
		delivery->batch->ready--;
}

struct inbox_delivery *ih_session_take(struct inbox_handler *handler)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&handler->ready);

	if (delivery != NULL)
		ih_session_show(handler, delivery);
	return delivery;
}

static void cut_off(struct inbox_delivery *delivery)
{
	if (delivery->cancelled == NULL)
		delivery->cancelled = "connection_lost";
	if (delivery->batch != NULL)
		delivery->batch->lost = true;
}

static void cut_off_all(struct inbox_handler *handler)
{
	struct inbox_delivery *delivery;

	while ((delivery = ih_session_take(handler)) != NULL) {
		cut_off(delivery);
		ih_let_go(delivery);
	}
	TAILQ_FOREACH (delivery, &handler->open, list)
		cut_off(delivery);
}

void ih_session_lost(struct inbox_handler *handler, const char *why)
{
	int64_t delay_ms;

	cut_off_all(handler);
	ih_wire_close(&handler->wire);
	handler->held_us = 0;
	if (handler->state >= IH_DRAINING) {
		handler->state = IH_CLOSED;
		return;
	}
	handler->state = IH_DOWN;
	delay_ms = next_delay_ms(handler);
	handler->failures++;
	handler->due_ms = ih_now_ms() + delay_ms;
	ih_fail(handler, 0, "%s; connecting again in %lld ms", why, (long long)delay_ms);
	ih_log(handler, "%s", handler->words);
}

static int read_line(struct inbox_handler *handler, const char *text, size_t length)
{
	struct ih_line *line = NULL;
	int r = ih_reader_read(handler->reader, text, length, &line);

	if (r == IH_READER_BROKEN) {
		ih_session_lost(handler, "the sidecar sent a line that is not a JSON object");
		return 0;
	}
	if (r == 0)
		r = ih_lines_act(handler, line);
	if (r < 0)
		return ih_fail(handler, r, "out of memory for a message: it stays where it is");
	if (handler->wire.fd >= 0 && handler->wire.out.broken)
		ih_session_lost(handler, "out of memory for a line to the sidecar");
	if (handler->wire.fd >= 0)
		ih_wire_take(&handler->wire, length);
	return 0;
}

static int read_lines(struct inbox_handler *handler)
{
	const char *text = NULL;
	size_t length = 0;
	int r = 0;

	while (r == 0 && handler->wire.fd >= 0) {
		r = ih_wire_line(&handler->wire, &text, &length);
		if (r == 0)
			r = read_line(handler, text, length);
	}
	if (r == IH_WIRE_TOO_LONG)
		ih_session_lost(handler, "the sidecar sent a line of more than 32 MiB");
	return r < 0 ? r : 0;
}

/* Receives once, or with `last_words`, from a peer that has stopped reading, until its last lines are read. */
static int receive(struct inbox_handler *handler, bool last_words)
{
	int r;

	do {
		r = ih_wire_receive(&handler->wire);
		if (r == 0)
			r = read_lines(handler);
		else if (r == INBOX_ERROR_MEMORY)
			ih_fail(handler, r, "out of memory to receive: it stays in the socket");
		else if (r == IH_WIRE_CLOSED || last_words)
			ih_session_lost(handler, "the connection was lost");
	} while (r == 0 && last_words && handler->wire.fd >= 0);
	return r < 0 ? r : 0;
}

int ih_session_exchange(struct inbox_handler *handler)
{
	int flushed;
	int r;

	if (handler->wire.fd < 0)
		return 0;
	flushed = ih_wire_flush(&handler->wire);
	if (flushed == 0)
		handler->held_us = 0;
	r = read_lines(handler);
	if (r < 0 || handler->wire.fd < 0)
		return r;
	return receive(handler, flushed == IH_WIRE_CLOSED);
}

static void connect_now(struct inbox_handler *handler)
{
	const int error = ih_wire_open(&handler->wire, handler->socket);
	char why[256];

	if (error != 0) {
		snprintf(why, sizeof(why), "can't connect to the sidecar at %s: %s",
			handler->socket, strerror(error));
		ih_session_lost(handler, why);
		return;
	}
	handler->state = IH_GREETING;
	handler->due_ms = ih_now_ms() + GREETING_MS;
	ih_buffer_add(&handler->wire.out, handler->hello.data, handler->hello.length);
	if (handler->wire.out.broken)
		ih_session_lost(handler, "out of memory to say hello");
}

static void begin_drain(struct inbox_handler *handler)
{
	const bool greeted = handler->state == IH_READY;

	handler->state = IH_DRAINING;
	handler->due_ms = ih_now_ms() + DRAINING_MS;
	if (!greeted) {
		ih_session_lost(handler, "stopped");
		return;
	}
	ih_lines_give_back(handler);
	if (handler->wire.fd < 0)
		return;
	ih_buffer_add_text(
		&handler->wire.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"drain\"}\n");
	if (handler->wire.out.broken)
		ih_session_lost(handler, "out of memory to drain");
}

/* Gives up when the answer to hello is late, or the answer to drain after the program has answered everything. */
static void give_up_when_due(struct inbox_handler *handler)
{
	const int64_t now_ms = ih_now_ms();

	if (handler->state == IH_DRAINING && !TAILQ_EMPTY(&handler->open))
		handler->due_ms = now_ms + DRAINING_MS;
	if (now_ms < handler->due_ms)
		return;
	if (handler->state == IH_GREETING)
		ih_session_lost(handler, "the sidecar did not answer hello within 10 s");
	else if (handler->state == IH_DRAINING)
		ih_session_lost(handler, "the sidecar did not answer drain within 10 s");
}

int ih_session_step(struct inbox_handler *handler)
{
	int r;

	if (atomic_load(&handler->stop_asked) && handler->state < IH_DRAINING)
		begin_drain(handler);
	if (handler->state == IH_DOWN && ih_now_ms() >= handler->due_ms)
		connect_now(handler);
	r = ih_session_exchange(handler);
	give_up_when_due(handler);
	return handler->refused ? INBOX_ERROR_REFUSED : r;
}
