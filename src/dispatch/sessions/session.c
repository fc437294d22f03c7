/*
 * One connection of a handler: who may connect, how input is split into lines, how lines are sent, how it ends.
 * requests.c executes the lines.
 *
 * Limits protect the process from its clients: the length of a line, the unfinished lines of all connections, the
 * replies that a client does not read, and the time without a hello. A client that exceeds one loses its
 * connection; its open deliveries go back to the table.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/core.h"

#define HELLO_WITHIN_MS   30000
#define CLOSE_WITHIN_MS   2000
#define UNREAD_MAX_BYTES  65536
#define READ_FIRST_BYTES  4096 /* libevent 2.1 reads this much at a time (EVBUFFER_MAX_READ) */
#define READ_REST_BYTES   (65536 - 64) /* libevent adds a header and rounds up to a power of two */
/* More than the default buffer of a Unix socket. One write can fill it, so the reader wakes up once for hundreds of
 * messages. */
#define WRITE_MAX_BYTES   262144

/* A connection that has not read this many bytes of replies is closed. */
#define REPLIES_MAX_BYTES ((size_t)1024 * 1024)

void session_send(struct session *session, const struct buf *line)
{
	if (!buf_ok(line) || bufferevent_write(session->bev, line->data, line->length) != 0)
		log_error("line_not_written", LOG_STR("session", session->id),
			LOG_STR("why", "out of memory"),
			LOG_STR("next", "the handler does not get the line; a delivery times out"));
}

size_t session_unsent(const struct session *session)
{
	return evbuffer_get_length(bufferevent_get_output(session->bev));
}

void session_reply(struct session *session, const struct buf *line)
{
	size_t unsent = session_unsent(session);

	if (session->replied > unsent)
		session->replied = unsent;
	session->replied += line->length;
	session_send(session, line);
	if (session->replied <= REPLIES_MAX_BYTES || session->closing)
		return;
	log_warn("connection_closed", LOG_STR("session", session->id),
		LOG_STR("why", "the client does not read the replies to its requests"),
		LOG_STR("next", "its open deliveries go back to waiting"));
	session_close_soon(session);
}

void session_reply_error(struct session *session, struct bytes id, int code, const char *text)
{
	struct buf *line = &session->dispatch->line;

	buf_reset(line);
	protocol_add_error(line, id, code, text);
	session_reply(session, line);
}

void session_cancel(struct session *session, const struct entry *entry, const char *reason)
{
	struct buf *line = &session->dispatch->line;
	char id[ENTRY_ID_BYTES];

	entry_id(entry, id);
	buf_reset(line);
	protocol_add_cancel(line, id, reason);
	session_send(session, line);
}

void session_check_drained(struct session *session)
{
	struct buf *line = &session->dispatch->line;

	if (session->drain_id.length == 0 || session->open_count > 0)
		return;
	buf_reset(line);
	protocol_add_drain_reply(
		line, (struct bytes){ session->drain_id.data, session->drain_id.length }, 0);
	session_send(session, line);
	buf_reset(&session->drain_id);
}

static void forget_input(struct session *session)
{
	session->dispatch->input_bytes -= session->input_bytes;
	session->input_bytes = 0;
}

void session_close(struct session *session)
{
	struct dispatch *dispatch = session->dispatch;

	handlers_leave(dispatch, session);
	forget_input(session);
	TAILQ_REMOVE(&dispatch->sessions, session, link);
	dispatch->session_count--;
	bufferevent_free(session->bev);
	buf_fini(&session->drain_id);
	free(session);
	dispatch_schedule(dispatch);
}

/*
 * Ends the output, so that the client reads the end of the stream behind the last line. Its input is read and discarded
 * for CLOSE_WITHIN_MS. If the socket were closed with unread input, the kernel would reset the connection, and the
 * client could get an error before it has read the reason.
 */
static void end_output(struct session *session)
{
	if (session_unsent(session) == 0)
		(void)shutdown(bufferevent_getfd(session->bev), SHUT_WR);
}

void session_close_soon(struct session *session)
{
	if (session->closing)
		return;
	session->closing = true;
	session->closing_ms = clock_now_ms();
	handlers_leave(session->dispatch, session); /* also releases a suspect that reserves it */
	end_output(session);
}

/* ------------------------------------------------------------------ bytes */

/* Finds the next LF. Searches only bytes that were not searched before, so that a long line costs linear time. */
static bool next_line(struct session *session, struct evbuffer *input, size_t *length)
{
	struct evbuffer_ptr from;
	struct evbuffer_ptr at;

	if (evbuffer_ptr_set(input, &from, session->scanned, EVBUFFER_PTR_SET) != 0)
		return false;
	at = evbuffer_search_eol(input, &from, NULL, EVBUFFER_EOL_LF);
	if (at.pos < 0) {
		session->scanned = evbuffer_get_length(input);
		return false;
	}
	*length = (size_t)at.pos;
	return true;
}

static void read_lines(struct session *session, struct evbuffer *input)
{
	size_t length;
	const void *text;

	while (!session->closing && next_line(session, input, &length)) {
		text = evbuffer_pullup(input, (ev_ssize_t)length + 1);
		if (text == NULL)
			return;
		if (length >= PROTOCOL_MAX_LINE)
			requests_refuse(session, "line too long");
		else
			requests_handle(session, (struct bytes){ text, length });
		(void)evbuffer_drain(input, length + 1);
		session->scanned = 0;
	}
}

/*
 * Reads the rest of what the socket holds. libevent 2.1 reads READ_FIRST_BYTES at a time, about sixty verdicts, and a
 * round of the event loop for each such part costs more than the verdicts themselves.
 *
 * To add to the input buffer is safe here: it is libevent's own read callback, on its thread, and the buffer has
 * neither watermarks nor callbacks. libevent itself did the same a moment before. The end of the stream is left to
 * its next read. False: no memory, and the bytes are lost.
 */
static bool read_rest(struct session *session, struct evbuffer *input)
{
	struct evbuffer_iovec space;
	ssize_t n;
	bool kept = true;

	if (session->closing || evbuffer_get_length(input) < READ_FIRST_BYTES)
		return true;
	(void)evbuffer_unfreeze(input, 0);
	if (evbuffer_reserve_space(input, READ_REST_BYTES, &space, 1) == 1) {
		n = recv(bufferevent_getfd(session->bev), space.iov_base, READ_REST_BYTES,
			MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			session->error = errno; /* the kernel reports an error only once */
		space.iov_len = n < 0 ? 0 : (size_t)n;
		kept = evbuffer_commit_space(input, &space, 1) == 0;
	}
	(void)evbuffer_freeze(input, 0);
	return kept;
}

static void on_readable(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;
	struct dispatch *dispatch = session->dispatch;
	struct evbuffer *input = bufferevent_get_input(bev);
	size_t left;

	if (!read_rest(session, input))
		requests_refuse(session, "internal error: input was lost");
	read_lines(session, input);
	if (session->closing)
		(void)evbuffer_drain(input, evbuffer_get_length(input));
	left = evbuffer_get_length(input);
	forget_input(session);
	session->input_bytes = left;
	dispatch->input_bytes += left;
	if (session->closing)
		return;
	if (left >= PROTOCOL_MAX_LINE)
		requests_refuse(session, "line too long");
	else if (dispatch->input_bytes > INPUT_MAX_BYTES && left > UNREAD_MAX_BYTES)
		requests_refuse(session, "too many unfinished lines on all connections together");
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;

	(void)bev;
	FAULT_POINT("after_deliver_before_settle");
	if (session->closing)
		end_output(session);
	else
		dispatch_schedule(session->dispatch);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct session *session = arg;
	int error = what & BEV_EVENT_EOF ? session->error : errno;
	const char *why = error == 0 ? "closed by the handler" : strerror(error);

	(void)bev;
	log_info("handler_disconnected",
		LOG_STR("handler", session->handler == NULL ? NULL : session->handler->name),
		LOG_STR("session", session->id), LOG_STR("why", why),
		LOG_INT("open_deliveries", session->open_count));
	session_close(session);
}

void session_tick(struct session *session, int64_t now_ms)
{
	bool silent = session->handler == NULL && now_ms - session->connected_ms > HELLO_WITHIN_MS;
	bool lingered = now_ms - session->closing_ms > CLOSE_WITHIN_MS;

	if (session->closing ? lingered : silent)
		session_close(session);
}

/* ------------------------------------------------------------------ who may connect */

static bool is_allowed(const struct dispatch *dispatch, evutil_socket_t fd, struct ucred *peer)
{
	const struct config *config = dispatch->options.config;
	socklen_t length = sizeof(*peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) != 0)
		return false;
	for (size_t i = 0; i < config->socket.allow_uid_count; i++) {
		if (config->socket.allow_uid[i] == peer->uid)
			return true;
	}
	return config->socket.allow_uid_count == 0;
}

static struct session *session_new(struct dispatch *dispatch, evutil_socket_t fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->bev = bufferevent_socket_new(dispatch->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (session->bev == NULL) {
		free(session);
		return NULL;
	}
	session->dispatch = dispatch;
	session->connected_ms = clock_now_ms();
	TAILQ_INIT(&session->open);
	(void)snprintf(session->id, sizeof(session->id), "s%llu",
		(unsigned long long)++dispatch->next_session);
	TAILQ_INSERT_TAIL(&dispatch->sessions, session, link);
	dispatch->session_count++;
	(void)bufferevent_set_max_single_write(session->bev, WRITE_MAX_BYTES);
	bufferevent_setcb(session->bev, on_readable, on_written, on_event, session);
	(void)bufferevent_enable(session->bev, EV_READ | EV_WRITE);
	return session;
}

void session_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int length, void *arg)
{
	struct dispatch *dispatch = arg;
	struct ucred peer = { .uid = (uid_t)-1 };
	bool allowed = is_allowed(dispatch, fd, &peer);
	struct session *session = NULL;

	(void)listener;
	(void)address;
	(void)length;
	if (dispatch->session_count < dispatch->sessions_most)
		session = session_new(dispatch, fd);
	if (session == NULL) {
		log_warn("connection_refused", LOG_STR("why", "too many connections or no memory"),
			LOG_INT("connections", dispatch->session_count),
			LOG_STR("next", "the client should connect again later"));
		(void)evutil_closesocket(fd);
		return;
	}
	if (allowed)
		return;
	log_warn("connection_refused", LOG_STR("why", "user id not in socket.allow_uid"),
		LOG_INT("uid", peer.uid), LOG_INT("pid", peer.pid),
		LOG_STR("next", "add the user id to socket.allow_uid if it may connect"));
	session_reply_error(session, (struct bytes){ NULL, 0 }, PROTOCOL_NOT_AUTHORISED,
		"this user id is not in socket.allow_uid");
	session_close_soon(session);
}
