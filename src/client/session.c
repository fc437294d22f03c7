/*
 * The connection and its states (see handler.h), and the calls of a delivery that use it at once. A line of the
 * sidecar is read, executed (lines.c), and only then removed from the buffer. If there is no memory half-way, the same
 * line is read again.
 *
 * The sidecar is not an enemy, but it can have faults: a line that violates the protocol ends the connection. Its
 * open messages are delivered again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/handler.h"

enum {
	GREETING_MS = 10000, /* how long the answer to hello may take */
	DRAINING_MS = 10000, /* how long the answer to drain may take after the last verdict */
};

/* Executes one line. If there is no memory, the line stays in the buffer and is read again. */
static int read_line(struct inbox_handler *handler, const char *text, size_t length)
{
	struct ih_line *line = NULL;
	int r = ih_reader_read(handler->reader, text, length, &line);

	if (r == IH_READER_BROKEN) {
		ih_connection_lost(handler, "the sidecar sent a line that is not a JSON object");
		return 0;
	}
	if (r == 0)
		r = ih_lines_act(handler, line);
	if (r < 0)
		return ih_fail(handler, r, "out of memory for a message: it stays where it is");
	if (handler->wire.fd >= 0 && handler->wire.out.broken)
		ih_connection_lost(handler, "out of memory for a line to the sidecar");
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
		ih_connection_lost(handler, "the sidecar sent a line of more than 32 MiB");
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
			ih_connection_lost(handler, "the connection was lost");
	} while (r == 0 && last_words && handler->wire.fd >= 0);
	return r < 0 ? r : 0;
}

/* Sends and receives, if there is a connection. */
static int exchange(struct inbox_handler *handler)
{
	int flushed;
	int r;

	if (handler->wire.fd < 0)
		return 0;
	flushed = ih_wire_flush(&handler->wire);
	if (flushed == 0)
		handler->pace.held_us = 0;
	/* First what was left over when memory had run out. */
	r = read_lines(handler);
	if (r < 0 || handler->wire.fd < 0)
		return r;
	return receive(handler, flushed == IH_WIRE_CLOSED);
}

/* What the operator can do. Often the program has another path of the socket than the sidecar. */
static const char *advice_of(int error)
{
	switch (error) {
	case ENOENT:
		return ": start inboxd, or use the path in its option socket.path";
	case ECONNREFUSED:
		return ": no process listens on this socket; start inboxd";
	case EACCES:
		return ": this user may not use the socket; change socket.mode or socket.group of "
		       "inboxd";
	default:
		return "";
	}
}

static void connect_now(struct inbox_handler *handler)
{
	const int error = ih_wire_open(&handler->wire, handler->socket);
	char why[320];

	if (error != 0) {
		snprintf(why, sizeof(why), "can't connect to the sidecar at %s: %s%s",
			handler->socket, strerror(error), advice_of(error));
		ih_connection_lost(handler, why);
		return;
	}
	handler->state = IH_GREETING;
	handler->due_ms = ih_now_ms() + GREETING_MS;
	buf_add(&handler->wire.out, handler->hello.data, handler->hello.length);
	if (handler->wire.out.broken)
		ih_connection_lost(handler, "out of memory to say hello");
}

static void begin_drain(struct inbox_handler *handler)
{
	const bool greeted = handler->state == IH_READY;

	handler->state = IH_DRAINING;
	handler->due_ms = ih_now_ms() + DRAINING_MS;
	/* Without an answer to hello the sidecar has delivered nothing. */
	if (!greeted) {
		ih_connection_lost(handler, "stopped");
		return;
	}
	ih_lines_give_back(handler);
	if (handler->wire.fd < 0)
		return;
	buf_add_str(&handler->wire.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"drain\"}\n");
	if (handler->wire.out.broken)
		ih_connection_lost(handler, "out of memory to drain");
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
		ih_connection_lost(handler, "the sidecar did not answer hello within 10 s");
	else if (handler->state == IH_DRAINING)
		ih_connection_lost(handler, "the sidecar did not answer drain within 10 s");
}

int ih_session_step(struct inbox_handler *handler)
{
	int r;

	if (atomic_load(&handler->stop_asked) && handler->state < IH_DRAINING)
		begin_drain(handler);
	if (handler->state == IH_DOWN && ih_now_ms() >= handler->due_ms)
		connect_now(handler);
	r = exchange(handler);
	give_up_when_due(handler);
	return handler->refused ? INBOX_ERROR_REFUSED : r;
}

int inbox_delivery_extend(struct inbox_delivery *delivery, int64_t timeout_ms)
{
	struct inbox_handler *handler = delivery->handler;
	struct buf *out = &handler->wire.out;
	const size_t before = out->length;

	if (timeout_ms <= 0)
		return ih_fail(handler, INBOX_ERROR_ARGUMENT,
			"a delivery can't be extended to end before now: give a timeout_ms above "
			"0");
	if (delivery->cancelled != NULL)
		return INBOX_CANCELLED;
	buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"method\":\"extend\",\"params\":{\"delivery\":");
	buf_add_str(out, ih_record_text(&delivery->record, IH_ID));
	buf_addf(out, ",\"timeout_ms\":%lld}}\n", (long long)timeout_ms);
	if (!ih_is_whole(out, before))
		return ih_fail(handler, INBOX_ERROR_MEMORY,
			"out of memory to extend a delivery: its deadline stays");
	delivery->due_ms = ih_due_ms(timeout_ms);
	exchange(handler);
	return delivery->cancelled != NULL ? INBOX_CANCELLED : 0;
}

int64_t inbox_delivery_left_ms(const struct inbox_delivery *delivery)
{
	return delivery->due_ms - ih_now_ms();
}

const char *inbox_delivery_cancelled(struct inbox_delivery *delivery)
{
	if (delivery->cancelled == NULL)
		exchange(delivery->handler);
	return delivery->cancelled;
}
