/*
 * The socket: bytes in, lines out, and the other way round. Knows nothing of what the lines say.
 * Never blocks and raises no SIGPIPE. One thread.
 */
#ifndef HANDLER_WIRE_H
#define HANDLER_WIRE_H

#include "handler/buffer.h"

#define IH_MAX_LINE 33554432 /* bytes, LF included; the protocol's own limit */

enum { IH_WIRE_AGAIN = 1, IH_WIRE_CLOSED = 2, IH_WIRE_TOO_LONG = 3 };

struct ih_wire {
	int fd; /* -1 = not connected */
	struct ih_buffer in;
	size_t in_start;   /* bytes of `in` already taken */
	size_t in_scanned; /* bytes of `in` known to hold no LF beyond in_start */
	struct ih_buffer out;
	size_t out_sent;
};

/* Connects to a Unix socket. 0, or an errno: the path is too long (ENAMETOOLONG), nobody listens,
 * the backlog is full. */
int ih_wire_open(struct ih_wire *wire, const char *path);
/* Closes and forgets what was not yet read or sent. */
void ih_wire_close(struct ih_wire *wire);
/* Reads what is there. 0: something came. IH_WIRE_AGAIN, IH_WIRE_CLOSED, INBOX_ERROR_MEMORY. */
int ih_wire_receive(struct ih_wire *wire);
/* The next whole line without its LF, borrowed until ih_wire_take() or the next receive. 0,
 * IH_WIRE_AGAIN, or IH_WIRE_TOO_LONG. */
int ih_wire_line(struct ih_wire *wire, const char **line, size_t *length);
/* Takes the line just seen. */
void ih_wire_take(struct ih_wire *wire, size_t length);
/* Sends what is in `out`. 0 when all of it went, IH_WIRE_AGAIN, IH_WIRE_CLOSED. */
int ih_wire_flush(struct ih_wire *wire);
/* Bytes waiting to be sent. */
size_t ih_wire_pending(const struct ih_wire *wire);

#endif
