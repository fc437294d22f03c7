/*
 * The socket: splits the input into lines and sends lines. It does not interpret them. Never blocks, and raises no
 * SIGPIPE. One thread.
 */
#ifndef CLIENT_WIRE_H
#define CLIENT_WIRE_H

#include "base/buf.h"

#define IH_MAX_LINE 33554432 /* bytes, LF included; the protocol's own limit */

enum { IH_WIRE_AGAIN = 1, IH_WIRE_CLOSED = 2, IH_WIRE_TOO_LONG = 3 };

struct ih_wire {
	int fd; /* -1 = not connected */
	struct buf in;
	size_t in_start;   /* bytes of `in` that were taken already */
	size_t in_scanned; /* bytes of `in` behind in_start that are known to contain no LF */
	struct buf out;
	size_t out_sent;
};

/* Connects to a Unix socket. 0, or an errno: the path is too long (ENAMETOOLONG), no process listens, the backlog is
 * full. */
int ih_wire_open(struct ih_wire *wire, const char *path);
/* Closes the socket and discards data that was not read or sent. */
void ih_wire_close(struct ih_wire *wire);
/* Reads available data. 0: there was some. IH_WIRE_AGAIN, IH_WIRE_CLOSED, INBOX_ERROR_MEMORY. */
int ih_wire_receive(struct ih_wire *wire);
/* The next complete line without its LF, borrowed until ih_wire_take() or the next receive. 0,
 * IH_WIRE_AGAIN, or IH_WIRE_TOO_LONG. */
int ih_wire_line(struct ih_wire *wire, const char **line, size_t *length);
/* Removes the line that ih_wire_line() returned. */
void ih_wire_take(struct ih_wire *wire, size_t length);
/* Sends the content of `out`. 0: everything was sent. IH_WIRE_AGAIN, IH_WIRE_CLOSED. */
int ih_wire_flush(struct ih_wire *wire);
/* Bytes that wait to be sent. */
size_t ih_wire_pending(const struct ih_wire *wire);

#endif
