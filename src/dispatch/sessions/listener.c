/*
 * Accepts connections, and splits their input into lines for requests.c. See sessions.h for the limits.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/process.h"
#include "base/time/clock.h"
#include "dispatch/sessions/sessions.h"
#include "report/meters.h"

#define LISTEN_BACKLOG   128
#define ACCEPT_PAUSE_S   1
/* Connections of handlers at a time. The limit of open files can make it lower. */
#define SESSIONS_MAX     1024
/* File descriptors that handlers cannot use up: PostgreSQL, Kafka, HTTP and log files need them. */
#define DESCRIPTORS_KEPT 128
/* Limit for the unfinished lines of all connections together. */
#define INPUT_MAX_BYTES  ((size_t)64 * 1024 * 1024)
#define UNREAD_MAX_BYTES 65536
#define READ_FIRST_BYTES 4096 /* libevent 2.1 reads this much at a time (EVBUFFER_MAX_READ) */
#define READ_MOST_BYTES  (65536 - 64) /* libevent adds a header and rounds up to a power of two */
/* More than the default buffer of a Unix socket. One write can fill it, so the reader wakes up once for hundreds of
 * messages. */
#define WRITE_MAX_BYTES  262144

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

/* Too many events of this handler wait for PostgreSQL. */
static bool must_wait(const struct session *session)
{
	const struct handler_group *group = session->connection.group;

	return order_is_full(session->sessions->order, group == NULL ? NULL : &group->queue);
}

static void read_lines(struct session *session, struct evbuffer *input)
{
	size_t length;
	const void *text;

	while (!session->connection.closing && !must_wait(session) &&
		next_line(session, input, &length)) {
		text = evbuffer_pullup(input, (ev_ssize_t)length + 1);
		if (text == NULL)
			return;
		if (length >= PROTOCOL_MAX_LINE)
			requests_refuse(session, PROTOCOL_LINE_TOO_LONG, "line too long");
		else
			requests_handle(session, (struct bytes){ text, length });
		(void)evbuffer_drain(input, length + 1);
		session->scanned = 0;
	}
}

/*
 * Adds to session->input what libevent has read, and the rest of what the socket holds. libevent 2.1 reads
 * READ_FIRST_BYTES at a time, about sixty verdicts, whatever bufferevent_set_max_single_read() says, and a round of the
 * event loop for each such part costs more than to read the verdicts (ADR 0027). The end of the stream is left to its
 * next read.
 *
 * Two things keep an unfinished line from using much more memory than it is long. The first part is copied and its
 * buffer is not moved here: of a line that arrives byte by byte, each byte would bring a buffer of its own. And the
 * kernel is asked how much waits, so that no more space is reserved than is filled. False: no memory, and bytes are
 * lost.
 */
static bool take_input(struct session *session)
{
	struct bufferevent *bev = session->connection.bev;
	size_t first = evbuffer_get_length(bufferevent_get_input(bev));
	size_t most = first;
	struct evbuffer_iovec space;
	int waiting = 0;
	ssize_t n = 0;

	if (first >= READ_FIRST_BYTES && first < READ_MOST_BYTES &&
		ioctl(bufferevent_getfd(bev), FIONREAD, &waiting) == 0 && waiting > 0)
		most += (size_t)waiting < READ_MOST_BYTES - first ? (size_t)waiting
								  : READ_MOST_BYTES - first;
	if (evbuffer_reserve_space(session->input, (ev_ssize_t)most, &space, 1) != 1) {
		/* The rest can stay in the socket; what libevent has read cannot. */
		most = first;
		if (evbuffer_reserve_space(session->input, (ev_ssize_t)most, &space, 1) != 1)
			return false;
	}
	first = bufferevent_read(bev, space.iov_base, first);
	if (most > first)
		n = recv(bufferevent_getfd(bev), (char *)space.iov_base + first, most - first,
			MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		session->error = errno; /* the kernel reports an error only once */
	space.iov_len = first + (n > 0 ? (size_t)n : 0);
	return evbuffer_commit_space(session->input, &space, 1) == 0;
}

/* What was read stays in session->input, with at most READ_MOST_BYTES of further lines. */
static bool pause_input(struct session *session)
{
	struct sessions *sessions = session->sessions;

	if (must_wait(session) && !session->paused) {
		(void)bufferevent_disable(session->connection.bev, EV_READ);
		session->paused = true;
		sessions->paused++;
	}
	return session->paused;
}

/* The unfinished lines of all connections with the same handler, with the role "requests", or without a hello. */
static size_t input_with(const struct session *session)
{
	const struct session *other;
	size_t bytes = 0;

	TAILQ_FOREACH (other, &session->sessions->list, link) {
		if (other->connection.group == session->connection.group &&
			other->for_requests == session->for_requests)
			bytes += other->input_bytes;
	}
	return bytes;
}

/* Too many bytes are unfinished lines. Closes the connection with the largest line of the handler that has the most of
 * them. It need not be the connection that is read now. Compares all connections with each other: this happens once for at least UNREAD_MAX_BYTES. */
static void refuse_largest(struct sessions *sessions)
{
	struct session *session;
	struct session *largest = NULL;
	size_t most = 0;

	TAILQ_FOREACH (session, &sessions->list, link) {
		size_t all = session->input_bytes > UNREAD_MAX_BYTES ? input_with(session) : 0;

		if (all > most ||
			(all > 0 && all == most && session->input_bytes > largest->input_bytes)) {
			most = all;
			largest = session;
		}
	}
	if (largest == NULL)
		return;
	requests_refuse(largest, PROTOCOL_INTERNAL,
		"too many unfinished lines on all connections together");
	(void)evbuffer_drain(largest->input, evbuffer_get_length(largest->input));
	session_forget_input(largest);
}

/* Executes the lines that are complete. The input of a connection that is closing is read and discarded: see
 * session_end_output(). */
static void read_input(struct session *session)
{
	struct bufferevent *bev = session->connection.bev;
	struct sessions *sessions = session->sessions;
	struct evbuffer *input = session->input;
	size_t left;

	if (!session->connection.closing && !take_input(session))
		requests_refuse(session, PROTOCOL_INTERNAL, "internal error: input was lost");
	read_lines(session, input);
	if (session->connection.closing) {
		struct evbuffer *unread = bufferevent_get_input(bev);

		(void)evbuffer_drain(unread, evbuffer_get_length(unread));
		(void)evbuffer_drain(input, evbuffer_get_length(input));
	}
	left = evbuffer_get_length(input);
	session_forget_input(session);
	session->input_bytes = left;
	sessions->input_bytes += left;
	if (session->connection.closing || pause_input(session))
		return;
	if (left >= PROTOCOL_MAX_LINE)
		requests_refuse(session, PROTOCOL_LINE_TOO_LONG, "line too long");
	else if (sessions->input_bytes > INPUT_MAX_BYTES)
		refuse_largest(sessions);
}

void sessions_resume(struct sessions *sessions)
{
	struct session *session;

	if (sessions->paused == 0)
		return;
	TAILQ_FOREACH (session, &sessions->list, link) {
		if (!session->paused || must_wait(session))
			continue;
		session->paused = false;
		sessions->paused--;
		(void)bufferevent_enable(session->connection.bev, EV_READ);
		read_input(session); /* may pause it again */
	}
}

/* Replies are sent at once; deliveries follow at the end of the round. */
static void on_readable(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;

	(void)bev;
	read_input(session);
	sessions_send_outputs(session->sessions);
}

/* The socket has taken all output. */
static void output_ended(struct session *session)
{
	FAULT_POINT("after_deliver_before_settle");
	if (session->connection.closing)
		session_end_output(session);
}

/* libevent has sent the rest of the output, so the connection may have room for deliveries again. */
static void on_written(struct bufferevent *bev, void *arg)
{
	struct session *session = arg;

	(void)bufferevent_disable(bev, EV_WRITE);
	output_ended(session);
	context_request_round(session->sessions->context);
}

/*
 * Writes the output at once. libevent would first ask the kernel whether the socket has room: for each write two changes
 * of the epoll set, and a round of the event loop. It gets what the socket does not take, and finds its errors.
 */
static void send_output(struct session *session)
{
	struct bufferevent *bev = session->connection.bev;
	struct evbuffer *output = bufferevent_get_output(bev);

	if (bufferevent_get_enabled(bev) & EV_WRITE)
		return;
	/* Only libevent takes from the front of the output, except here. */
	(void)evbuffer_unfreeze(output, 1);
	(void)evbuffer_write_atmost(output, bufferevent_getfd(bev), WRITE_MAX_BYTES);
	(void)evbuffer_freeze(output, 1);
	if (evbuffer_get_length(output) == 0)
		output_ended(session);
	else
		(void)bufferevent_enable(bev, EV_WRITE);
}

void sessions_send_outputs(struct sessions *sessions)
{
	struct connection *connection;

	while ((connection = TAILQ_FIRST(&sessions->outputs)) != NULL) {
		TAILQ_REMOVE(&sessions->outputs, connection, output_link);
		connection->has_output = false;
		send_output((struct session *)((char *)connection -
					       offsetof(struct session, connection)));
	}
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct session *session = arg;
	int error = what & BEV_EVENT_EOF ? session->error : errno;
	const char *why = error == 0 ? "closed by the handler" : strerror(error);

	(void)bev;
	log_info("handler_disconnected",
		LOG_STR("handler",
			session->connection.group == NULL ? NULL : session->connection.group->name),
		LOG_STR("session", session->connection.id), LOG_STR("why", why),
		LOG_INT("open_deliveries", session->connection.open_count));
	session_close(session);
}

/* ------------------------------------------------------------------ who may connect */

static bool is_allowed(const struct sessions *sessions, evutil_socket_t fd, struct ucred *peer)
{
	const struct config *config = sessions->context->options.config;
	socklen_t length = sizeof(*peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) != 0)
		return false;
	for (size_t i = 0; i < config->socket.allow_uid_count; i++) {
		if (config->socket.allow_uid[i] == peer->uid)
			return true;
	}
	return config->socket.allow_uid_count == 0;
}

static struct session *session_new(struct sessions *sessions, evutil_socket_t fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->input = evbuffer_new();
	if (session->input != NULL)
		session->connection.bev =
			bufferevent_socket_new(sessions->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (session->connection.bev == NULL) {
		if (session->input != NULL)
			evbuffer_free(session->input);
		free(session);
		return NULL;
	}
	session->sessions = sessions;
	session->connected_ms = clock_now_ms();
	TAILQ_INIT(&session->connection.open);
	TAILQ_INIT(&session->leased);
	session->connection.outputs = &sessions->outputs;
	(void)snprintf(session->connection.id, sizeof(session->connection.id), "s%llu",
		(unsigned long long)++sessions->next_id);
	TAILQ_INSERT_TAIL(&sessions->list, session, link);
	sessions->count++;
	(void)bufferevent_set_max_single_write(session->connection.bev, WRITE_MAX_BYTES);
	bufferevent_setcb(session->connection.bev, on_readable, on_written, on_event, session);
	(void)bufferevent_disable(session->connection.bev, EV_WRITE); /* see send_output() */
	(void)bufferevent_enable(session->connection.bev, EV_READ);
	return session;
}

static int64_t silent_since(const struct session *session)
{
	return session->connection.closing ? 0 : session->connected_ms;
}

/* Ends the connection without a hello that has been silent for longest, so that another one can connect; first one that is
 * closing. One that only pokes connects again when it has something to say. False: there is none. */
static bool end_silent(struct sessions *sessions)
{
	struct session *session;
	struct session *silent = NULL;

	TAILQ_FOREACH (session, &sessions->list, link) {
		if (session->connection.group == NULL && !session->for_requests &&
			(silent == NULL || silent_since(session) < silent_since(silent)))
			silent = session;
	}
	if (silent == NULL)
		return false;
	log_warn("connection_closed", LOG_STR("session", silent->connection.id),
		LOG_STR("why", "too many connections are open, and this one has said no hello"),
		LOG_STR("next", "another connection takes its place"));
	session_close(silent);
	return true;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int length, void *arg)
{
	struct sessions *sessions = arg;
	struct ucred peer = { .uid = (uid_t)-1 };
	bool allowed = is_allowed(sessions, fd, &peer);
	struct session *session = NULL;

	(void)listener;
	(void)address;
	(void)length;
	if (sessions->count < sessions->most || (allowed && end_silent(sessions)))
		session = session_new(sessions, fd);
	if (session == NULL) {
		log_warn("connection_refused", LOG_STR("why", "too many connections or no memory"),
			LOG_INT("connections", sessions->count),
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

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)evconnlistener_enable(arg);
}

/* Without a free descriptor accept() fails, and the connection that waits would wake the loop again at once. So the
 * listener pauses. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	const struct timeval pause = { .tv_sec = ACCEPT_PAUSE_S };
	const char *error = strerror(EVUTIL_SOCKET_ERROR());

	(void)arg;
	log_warn("accept_failed", LOG_STR("error", error),
		LOG_INT("retry_in_ms", ACCEPT_PAUSE_S * 1000));
	if (event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, on_accept_again,
		    listener, &pause) == 0)
		(void)evconnlistener_disable(listener);
}

/* ------------------------------------------------------------------ start and end */

int sessions_init(struct sessions *sessions, struct schedule *schedule, struct err *err)
{
	struct metrics *metrics = schedule->context->options.metrics;
	size_t limit = process_descriptors();

	TAILQ_INIT(&sessions->list);
	TAILQ_INIT(&sessions->outputs);
	leased_init(&sessions->leased);
	sessions->context = schedule->context;
	sessions->order = schedule->order;
	sessions->groups = schedule->groups;
	sessions->schedule = schedule;
	/* Leaves descriptors for connections to PostgreSQL and Kafka, however many handlers connect. */
	limit -= limit < 2UL * DESCRIPTORS_KEPT ? limit / 2 : DESCRIPTORS_KEPT;
	sessions->most = limit < SESSIONS_MAX ? limit : SESSIONS_MAX;
	sessions->unknown_answers = metrics_get(metrics, METER_UNKNOWN_ANSWERS, NULL, NULL);
	sessions->protocol_errors = metrics_get(metrics, METER_PROTOCOL_ERRORS, NULL, NULL);
	sessions->order_violations = metrics_get(metrics, METER_ORDER_VIOLATIONS, NULL, NULL);
	return protocol_parser_new(&sessions->parser, err);
}

int sessions_listen(struct sessions *sessions, struct event_base *base, int fd, struct err *err)
{
	sessions->base = base;
	(void)evutil_make_socket_nonblocking(fd);
	sessions->listener = evconnlistener_new(base, on_accept, sessions,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, LISTEN_BACKLOG, fd);
	if (sessions->listener == NULL)
		return err_set(err, FAULT_SOCKET, "cannot listen for handlers");
	evconnlistener_set_error_cb(sessions->listener, on_accept_error);
	return 0;
}

void sessions_close_all(struct sessions *sessions)
{
	struct session *session;

	while ((session = TAILQ_FIRST(&sessions->list)) != NULL)
		session_close(session);
	if (sessions->listener != NULL)
		evconnlistener_free(sessions->listener);
	sessions->listener = NULL;
}

void sessions_fini(struct sessions *sessions)
{
	leased_fini(&sessions->leased);
	protocol_parser_free(sessions->parser);
	buf_fini(&sessions->line);
}
