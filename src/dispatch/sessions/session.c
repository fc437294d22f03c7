/*
 * The replies of one connection, and its end. See sessions.h; listener.c reads its input.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/sessions/sessions.h"

#define HELLO_WITHIN_MS   30000
#define CLOSE_WITHIN_MS   2000

/* A connection that has not read this many bytes of replies is closed. */
#define REPLIES_MAX_BYTES ((size_t)1024 * 1024)

void session_reply(struct session *session, const struct buf *line)
{
	size_t unsent = connection_unsent(&session->connection);

	if (session->replied > unsent)
		session->replied = unsent;
	session->replied += line->length;
	connection_send(&session->connection, line);
	if (session->replied <= REPLIES_MAX_BYTES || session->connection.closing)
		return;
	log_warn("connection_closed", LOG_STR("session", session->connection.id),
		LOG_STR("why", "the client does not read the replies to its requests"),
		LOG_STR("next", "its open deliveries go back to waiting"));
	session_close_soon(session);
}

void session_reply_error(struct session *session, struct bytes id, int code, const char *text)
{
	session_reply_error_with(session, id, code, text, NULL);
}

void session_reply_error_with(
	struct session *session, struct bytes id, int code, const char *text, const char *reason)
{
	struct buf *line = &session->sessions->line;

	buf_reset(line);
	protocol_add_error_with(line, id, code, text, reason);
	session_reply(session, line);
}

void session_check_drained(struct session *session)
{
	struct buf *line = &session->sessions->line;

	if (session->drain_id.length == 0 || session->connection.open_count > 0 ||
		session->leased_count > 0)
		return;
	buf_reset(line);
	protocol_add_drain_reply(
		line, (struct bytes){ session->drain_id.data, session->drain_id.length }, 0);
	connection_send(&session->connection, line);
	buf_reset(&session->drain_id);
}

void sessions_check_drained(struct sessions *sessions)
{
	struct session *session;

	TAILQ_FOREACH (session, &sessions->list, link)
		session_check_drained(session);
}

void session_leave(struct session *session)
{
	struct sessions *sessions = session->sessions;
	struct connection *connection = &session->connection;
	struct handler_group *group = connection->group;

	if (group == NULL)
		return;
	suspects_release_of(sessions->schedule, connection);
	deliveries_lose(sessions->schedule, connection);
	TAILQ_REMOVE(&group->connections, connection, link);
	connection->group = NULL;
	if (TAILQ_EMPTY(&group->connections) && group->queue.leaving < connection->window)
		group->queue.leaving = connection->window;
	handler_groups_leave(sessions->groups, group);
}

void session_forget_input(struct session *session)
{
	session->sessions->input_bytes -= session->input_bytes;
	session->input_bytes = 0;
}

void session_close(struct session *session)
{
	struct sessions *sessions = session->sessions;

	session_leave(session);
	leased_leave(session);
	session_forget_input(session);
	if (session->connection.has_output)
		TAILQ_REMOVE(&sessions->outputs, &session->connection, output_link);
	TAILQ_REMOVE(&sessions->list, session, link);
	sessions->count--;
	sessions->leased.clients -= session->for_requests;
	sessions->paused -= session->paused;
	bufferevent_free(session->connection.bev);
	evbuffer_free(session->input);
	buf_fini(&session->drain_id);
	free(session);
	context_request_round(sessions->context);
}

/*
 * Ends the output, so that the client reads the end of the stream behind the last line. Its input is read and discarded
 * for CLOSE_WITHIN_MS. If the socket were closed with unread input, the kernel would reset the connection, and the
 * client could get an error before it has read the reason.
 */
void session_end_output(struct session *session)
{
	if (connection_unsent(&session->connection) == 0)
		(void)shutdown(bufferevent_getfd(session->connection.bev), SHUT_WR);
}

void session_close_soon(struct session *session)
{
	if (session->connection.closing)
		return;
	session->connection.closing = true;
	session->closing_ms = clock_now_ms();
	session_leave(session);
	session_check_drained(session);
	session_end_output(session);
}

void sessions_tick(struct sessions *sessions, int64_t now_ms)
{
	struct session *session;
	struct session *next;

	for (session = TAILQ_FIRST(&sessions->list); session != NULL; session = next) {
		const struct connection *connection = &session->connection;
		bool silent = connection->group == NULL && !session->for_requests &&
			      now_ms - session->connected_ms > HELLO_WITHIN_MS;
		bool lingered = now_ms - session->closing_ms > CLOSE_WITHIN_MS;

		next = TAILQ_NEXT(session, link);
		session_check_drained(session); /* its last delivery may have timed out */
		if (connection->closing ? lingered : silent)
			session_close(session);
	}
}
