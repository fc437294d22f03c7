/*
 * See wire.h. A line is borrowed from the receive buffer, so lines that were taken are removed only when the next data
 * is received. The buffer grows until a whole line is in it; its size is bounded by the longest line and one read.
 */
#include "client/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "inboxd/handler.h"

enum {
	READ_SIZE = 262144,        /* above the usual socket buffer, so that one read empties it */
	KEPT_SIZE = 4 * READ_SIZE, /* an empty buffer that is larger than this is freed */
};

int ih_wire_open(struct ih_wire *wire, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = strlen(path);

	if (length >= sizeof(address.sun_path))
		return ENAMETOOLONG;
	memcpy(address.sun_path, path, length + 1);
	wire->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (wire->fd < 0)
		return errno;
	/* On a Unix socket this does not wait: a full backlog is EAGAIN. */
	if (connect(wire->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		const int saved = errno;

		ih_wire_close(wire);
		return saved;
	}
	return 0;
}

void ih_wire_close(struct ih_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	buf_fini(&wire->in);
	buf_fini(&wire->out);
	*wire = (struct ih_wire){ .fd = -1 };
}

/* Moves what was not taken yet to the start. Mostly that is nothing, or the beginning of one line. */
static void forget_taken(struct ih_wire *wire)
{
	const size_t rest = wire->in.length - wire->in_start;

	if (wire->in_start == 0)
		return;
	if (rest == 0)
		buf_trim(&wire->in, KEPT_SIZE);
	else
		memmove(wire->in.data, wire->in.data + wire->in_start, rest);
	wire->in_scanned -= wire->in_start;
	wire->in_start = 0;
	buf_cut(&wire->in, rest);
}

int ih_wire_receive(struct ih_wire *wire)
{
	struct buf *in = &wire->in;
	ssize_t n;

	forget_taken(wire);
	if (buf_reserve(in, READ_SIZE) == NULL) {
		/* What was received before is still whole. */
		buf_cut(in, in->length);
		return INBOX_ERROR_MEMORY;
	}
	do {
		n = recv(wire->fd, in->data + in->length, in->capacity - in->length, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return IH_WIRE_AGAIN;
	if (n <= 0)
		return IH_WIRE_CLOSED;
	in->length += (size_t)n;
	return 0;
}

/* The search for the LF continues where the last one ended, so each byte is examined once. */
int ih_wire_line(struct ih_wire *wire, const char **line, size_t *length)
{
	const char *end = NULL;

	if (wire->in_scanned < wire->in.length)
		end = memchr(
			wire->in.data + wire->in_scanned, '\n', wire->in.length - wire->in_scanned);
	wire->in_scanned = end == NULL ? wire->in.length : (size_t)(end - wire->in.data);
	if (wire->in_scanned - wire->in_start >= IH_MAX_LINE)
		return IH_WIRE_TOO_LONG;
	if (end == NULL)
		return IH_WIRE_AGAIN;
	*line = wire->in.data + wire->in_start;
	*length = wire->in_scanned - wire->in_start;
	return 0;
}

void ih_wire_take(struct ih_wire *wire, size_t length)
{
	wire->in_start += length + 1;
	wire->in_scanned = wire->in_start;
}

/* Removes what was sent, so that the buffer does not grow while a slow peer reads it. */
static void forget_sent(struct ih_wire *wire)
{
	const size_t rest = ih_wire_pending(wire);

	if (wire->out_sent <= rest)
		return;
	memmove(wire->out.data, wire->out.data + wire->out_sent, rest);
	wire->out.length = rest;
	wire->out_sent = 0;
}

int ih_wire_flush(struct ih_wire *wire)
{
	while (ih_wire_pending(wire) > 0) {
		const ssize_t n = send(wire->fd, wire->out.data + wire->out_sent,
			ih_wire_pending(wire), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			wire->out_sent += (size_t)n;
		} else if (errno != EINTR) {
			const int r = errno == EAGAIN ? IH_WIRE_AGAIN : IH_WIRE_CLOSED;

			forget_sent(wire);
			return r;
		}
	}
	wire->out_sent = 0;
	buf_cut(&wire->out, 0);
	buf_trim(&wire->out, KEPT_SIZE);
	return 0;
}

size_t ih_wire_pending(const struct ih_wire *wire)
{
	return wire->out.length - wire->out_sent;
}
