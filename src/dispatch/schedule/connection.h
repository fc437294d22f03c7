/*
 * A connection of a handler, as far as deliveries need it: what it has room for, what is open on it, and its output.
 * The room sessions owns it, reads its input, and adds it to its group after the hello. Dispatch thread only;
 * nothing here blocks.
 */
#ifndef DISPATCH_SCHEDULE_CONNECTION_H
#define DISPATCH_SCHEDULE_CONNECTION_H

#include "base/buf.h"
#include "dispatch/groups/handler_groups.h"

struct bufferevent;

struct connection {
	struct bufferevent *bev;      /* NULL: a SQL handler, whose deliveries are calls */
	char id[24];                  /* "s3", for the log and the handler */
	struct handler_group *group;  /* NULL before the hello */
	TAILQ_ENTRY(connection) link; /* in group->connections */
	struct entry_list open;       /* its deliveries without an answer, by deadline */
	size_t open_count;
	struct connection_list
		*outputs; /* connections with lines that the socket was not offered yet */
	TAILQ_ENTRY(connection) output_link; /* in `outputs` if has_output */
	bool has_output;
	struct reservation reservation; /* for the suspect that is delivered alone */
	struct call *call; /* of a SQL handler: delivered, and not given to a worker yet */
	bool calling;      /* of a SQL handler: a worker has a call */

	/* What its hello asked for. */
	size_t window; /* deliveries that may be open at a time */
	int64_t timeout_ms;
	size_t batch_max;
	bool batch_ordered; /* a batch may have several messages of a key */
	int64_t batch_wait_ms;

	int64_t batch_since_ms; /* since when an incomplete batch waits for more; 0 = none waits */
	/* When a delivery timed out, if the connection has sent no line since; 0 = it is not silent. */
	int64_t silent_ms;
	int64_t extended_us; /* when it last extended a deadline */
	bool draining;       /* the handler asked for drain: no new delivery */
	bool closing;        /* its last line is written: no new delivery, input is discarded */
};

/* Sends one line, at the end of the round or of the input (sessions_send_outputs). */
void connection_send(struct connection *connection, const struct buf *line);
/* Bytes that the socket has not accepted yet. */
size_t connection_unsent(const struct connection *connection);
/* The deliveries that may be open now: one while the connection is silent. */
size_t connection_window(const struct connection *connection);
/* True when one more message can be delivered. */
bool connection_has_room(const struct connection *connection);
/* True when a suspect can reserve it. */
bool connection_can_reserve(const struct connection *connection);
/* The connection with the fewest open deliveries among those that `fits` accepts, or NULL. */
struct connection *connection_least_busy(
	const struct handler_group *group, bool (*fits)(const struct connection *));

#endif
