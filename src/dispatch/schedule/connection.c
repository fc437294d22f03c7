/*
 * See connection.h. A silent connection (a delivery timed out, and no line has arrived since) gets one message at a
 * time, until it sends any line, even an answer that is too late. Without that rule a process that hangs would have the
 * fewest open messages after each timeout, and would get the next ones. During one more timeout the other connections
 * come first.
 */
#include "dispatch/schedule/connection.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/log.h"
#include "base/time/clock.h"

/* A connection that has not read this many bytes gets no further delivery. */
#define OUTPUT_MAX_BYTES ((size_t)1024 * 1024)

void connection_send(struct connection *connection, const struct buf *line)
{
	if (!connection->has_output) {
		connection->has_output = true;
		TAILQ_INSERT_TAIL(connection->outputs, connection, output_link);
	}
	if (!buf_ok(line) || bufferevent_write(connection->bev, line->data, line->length) != 0)
		log_error("line_not_written", LOG_STR("session", connection->id),
			LOG_STR("why", "out of memory"),
			LOG_STR("next", "the handler does not get the line; a delivery times out"));
}

size_t connection_unsent(const struct connection *connection)
{
	if (connection->bev == NULL)
		return 0;
	return evbuffer_get_length(bufferevent_get_output(connection->bev));
}

size_t connection_window(const struct connection *connection)
{
	return connection->silent_ms != 0 && connection->window > 1 ? 1 : connection->window;
}

bool connection_has_room(const struct connection *connection)
{
	return !connection->draining && !connection->closing && !connection->calling &&
	       connection->call == NULL && connection->reservation.entry == NULL &&
	       connection->open_count < connection_window(connection) &&
	       connection_unsent(connection) < OUTPUT_MAX_BYTES;
}

bool connection_can_reserve(const struct connection *connection)
{
	const struct reservation *reservation = &connection->reservation;

	return !connection->draining && !connection->closing && connection->window > 0 &&
	       reservation->entry == NULL &&
	       (connection->group->queue.ready_count == 0 ||
		       clock_now_ms() >= reservation->next_ms);
}

static bool is_deprioritized(const struct connection *connection)
{
	return connection->silent_ms != 0 &&
	       clock_now_ms() - connection->silent_ms < connection->timeout_ms;
}

static bool is_better(const struct connection *connection, const struct connection *best)
{
	bool last = is_deprioritized(connection);

	if (best == NULL || last != is_deprioritized(best))
		return best == NULL || !last;
	return connection->open_count < best->open_count;
}

struct connection *connection_least_busy(
	const struct handler_group *group, bool (*fits)(const struct connection *))
{
	struct connection *best = NULL;
	struct connection *connection;

	TAILQ_FOREACH (connection, &group->connections, link) {
		if (fits(connection) && is_better(connection, best))
			best = connection;
	}
	return best;
}
