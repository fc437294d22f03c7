/*
 * The limits of connections, and the error pages. See connections.h.
 *
 * evhttp calls our callback to create the buffers of each connection that it accepts, before it
 * stores its own handle of the connection. So the callback activates an event; when that event
 * runs, the handle is available, and the connection has not had an event yet.
 */
#include "http/connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/time/clock.h"

#define LARGEST_PAGE 1024 /* bytes, with the head; libevent's pages have about 400 */

enum phase { REQUEST, ANSWER, NEXT };

struct connection {
	struct http_connections *all;
	STAILQ_ENTRY(connection) link; /* while it is new */
	struct bufferevent *buffers;   /* a reference, while it is new */
	struct evhttp_connection *at;  /* belongs to evhttp */
	enum phase phase;
	int64_t since_ms;
};

struct http_connections {
	struct http_limits limits;
	struct event_base *base;
	struct event *sort_event; /* for the new ones */
	struct event *look_event; /* while there are connections */
	STAILQ_HEAD(, connection) fresh;
	struct connection **open;
	size_t count;
	/* For the log. */
	int64_t refused;
	int64_t dropped;
	int64_t logged_ms;
	char peer[64]; /* the last peer that was refused or dropped */
};

static void note_peer(struct http_connections *all, struct evhttp_connection *at)
{
	char *peer = NULL;
	ev_uint16_t port = 0;

	evhttp_connection_get_peer(at, &peer, &port);
	(void)snprintf(all->peer, sizeof(all->peer), "%s", peer == NULL ? "" : peer);
}

/* --- Error pages ------------------------------------------------------------------------------- */

/* libevent answers by itself to text that is not HTTP, a body that is too large, or an unknown
 * method, and it answers in HTML. inboxd sends JSON everywhere else. libevent 2.1 cannot be asked
 * for another page (2.2 has evhttp_set_errorcb()), but its page is complete in the output of the
 * connection before the first byte is sent, so it is replaced there. */

static const struct {
	int code;
	const char *reason;
	const char *words;
} errors[] = {
	{ 400, "Bad Request", "this is not an HTTP request, or its head is larger than 16 KiB" },
	{ 413, "Request Entity Too Large", "the body is larger than 4 KiB" },
	{ 417, "Expectation Failed", "Expect: only 100-continue is supported" },
	{ 501, "Not Implemented", "this method is not supported; use GET, HEAD or PUT" },
	{ 0, "Error", "the request cannot be served" },
};

/* The status of a complete error page of libevent; 0: not such a page. */
static int find_page(const char *text)
{
	const char *line = strchr(text, ' ');

	if (strncmp(text, "HTTP/1.", 7) != 0 || line == NULL ||
		strstr(text, "\r\nContent-Type: text/html") == NULL ||
		strstr(text, "</HTML>") == NULL)
		return 0;
	return (int)strtol(line, NULL, 10);
}

static void exchange(struct evbuffer *output, int code)
{
	char body[160];
	size_t i = 0;
	int length;

	while (errors[i].code != code && errors[i].code != 0)
		i++;
	length = snprintf(body, sizeof(body), "{\"error\":\"%s\"}\n", errors[i].words);
	(void)evbuffer_drain(output, evbuffer_get_length(output));
	(void)evbuffer_add_printf(output,
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, errors[i].reason, length, body);
}

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *unused)
{
	char text[LARGEST_PAGE + 1];
	ev_ssize_t length;
	int code;

	(void)unused;
	if (info->n_added == 0 || evbuffer_get_length(output) > LARGEST_PAGE)
		return;
	/* A connection hides the beginning of its output from other code. */
	(void)evbuffer_unfreeze(output, 1);
	length = evbuffer_copyout(output, text, LARGEST_PAGE);
	text[length < 0 ? 0 : length] = '\0';
	code = find_page(text);
	if (code != 0)
		exchange(output, code);
	(void)evbuffer_freeze(output, 1);
}

/* --- Closing ----------------------------------------------------------------------------------- */

static void on_close(struct evhttp_connection *at, void *arg)
{
	struct connection *connection = arg;
	struct http_connections *all = connection->all;
	size_t i = 0;

	(void)at;
	while (all->open[i] != connection)
		i++;
	all->open[i] = all->open[--all->count];
	free(connection);
}

static void drop(struct http_connections *all, struct connection *connection)
{
	all->dropped++;
	note_peer(all, connection->at);
	evhttp_connection_free(connection->at); /* calls on_close() */
}

/* Answers at once and without waiting for the client; part of the answer may be lost. Data that the
 * client has already sent is read first, because closing a socket with unread data would discard
 * the answer. */
static void refuse(struct http_connections *all, struct evhttp_connection *at)
{
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
		"Cache-Control: no-store\r\nRetry-After: 1\r\nContent-Length: 42\r\n"
		"Connection: close\r\n\r\n{\"error\":\"too many connections are open\"}\n";
	evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(at));
	char request[4096];

	(void)recv(fd, request, sizeof(request), MSG_DONTWAIT);
	(void)send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	all->refused++;
	note_peer(all, at);
	evhttp_connection_free(at);
}

/* --- Limits ------------------------------------------------------------------------------------ */

/* The connection that has waited longest for a request. */
static struct connection *longest(
	const struct http_connections *all, enum phase phase, int64_t least_ms)
{
	int64_t before_ms = clock_now_ms() - least_ms;
	struct connection *found = NULL;

	for (size_t i = 0; i < all->count; i++) {
		struct connection *one = all->open[i];

		if (one->phase == phase && one->since_ms <= before_ms &&
			(found == NULL || one->since_ms < found->since_ms))
			found = one;
	}
	return found;
}

/* NULL: all connections are in use. */
static struct connection *find_idle(const struct http_connections *all)
{
	struct connection *found = longest(all, REQUEST, all->limits.spare_ms);

	return found != NULL ? found : longest(all, NEXT, all->limits.settled_ms);
}

/* The time until this connection has been in its phase for too long. */
static int64_t left_ms(const struct http_connections *all, const struct connection *connection)
{
	const int64_t most_ms[] = {
		[REQUEST] = all->limits.request_ms,
		[ANSWER] = all->limits.answer_ms,
		[NEXT] = all->limits.next_ms,
	};

	return connection->since_ms + most_ms[connection->phase] - clock_now_ms();
}

/* Time until a line may be written; below 0: nothing to log. */
static int64_t silent_ms(const struct http_connections *all)
{
	int64_t left = all->logged_ms + all->limits.log_ms - clock_now_ms();

	if (all->refused + all->dropped == 0)
		return -1;
	return all->logged_ms == 0 || left < 0 ? 0 : left;
}

/* One line for many clients, because who opens connections by the hundred would fill the log, too. */
static void log_limits(struct http_connections *all)
{
	if (silent_ms(all) != 0)
		return;
	log_warn("http_connections_closed", LOG_INT("refused", all->refused),
		LOG_INT("dropped", all->dropped), LOG_INT("open", (int64_t)all->count),
		LOG_INT("most", (int64_t)all->limits.connections), LOG_STR("last_peer", all->peer),
		LOG_STR("next", "clients that send complete requests are answered"));
	all->logged_ms = clock_now_ms();
	all->refused = 0;
	all->dropped = 0;
}

/* Runs again when the first time limit ends, or when the next line may be logged. */
static void schedule_check(struct http_connections *all)
{
	int64_t least_ms = silent_ms(all);
	struct timeval pause;

	for (size_t i = 0; i < all->count; i++) {
		int64_t left = left_ms(all, all->open[i]);

		if (least_ms < 0 || left < least_ms)
			least_ms = left < 0 ? 0 : left;
	}
	if (least_ms < 0)
		return;
	pause.tv_sec = least_ms / 1000;
	pause.tv_usec = least_ms % 1000 * 1000;
	(void)event_add(all->look_event, &pause);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct http_connections *all = arg;

	(void)fd;
	(void)what;
	for (size_t i = all->count; i > 0; i--) {
		if (left_ms(all, all->open[i - 1]) <= 0)
			drop(all, all->open[i - 1]);
	}
	log_limits(all);
	schedule_check(all);
}

/* --- Opening ----------------------------------------------------------------------------------- */

/* A full server closes an idle connection for a new one, so that clients that open connections and
 * send nothing cannot keep a scraper out. */
static void admit(struct http_connections *all, struct connection *connection)
{
	struct connection *idle = NULL;

	if (all->count == all->limits.connections)
		idle = find_idle(all);
	if (idle != NULL)
		drop(all, idle);
	if (all->count == all->limits.connections) {
		refuse(all, connection->at);
		free(connection);
		return;
	}
	all->open[all->count++] = connection;
	evhttp_connection_set_closecb(connection->at, on_close, connection);
}

static void on_sort(evutil_socket_t fd, short what, void *arg)
{
	struct http_connections *all = arg;

	(void)fd;
	(void)what;
	while (!STAILQ_EMPTY(&all->fresh)) {
		struct connection *connection = STAILQ_FIRST(&all->fresh);
		void *handle = NULL;

		STAILQ_REMOVE_HEAD(&all->fresh, link);
		/* evhttp has set its handle as the argument of the callbacks; without one the
		 * connection has already ended */
		bufferevent_getcb(connection->buffers, NULL, NULL, NULL, &handle);
		(void)bufferevent_decref(connection->buffers);
		connection->at = handle;
		if (handle != NULL)
			admit(all, connection);
		else
			free(connection);
	}
	schedule_check(all);
}

/* evhttp creates its own buffers when it gets none. */
static struct bufferevent *on_accept(struct event_base *base, void *arg)
{
	struct http_connections *all = arg;
	struct connection *connection = calloc(1, sizeof(*connection));

	if (connection != NULL)
		connection->buffers = bufferevent_socket_new(base, -1, 0);
	if (connection == NULL || connection->buffers == NULL) {
		free(connection);
		return NULL;
	}
	(void)evbuffer_add_cb(bufferevent_get_output(connection->buffers), on_output, NULL);
	bufferevent_incref(connection->buffers);
	connection->all = all;
	connection->since_ms = clock_now_ms();
	STAILQ_INSERT_TAIL(&all->fresh, connection, link);
	event_active(all->sort_event, EV_TIMEOUT, 1);
	return connection->buffers;
}

/* --- Requests ---------------------------------------------------------------------------------- */

static void enter(struct connection *connection, enum phase phase)
{
	connection->phase = phase;
	connection->since_ms = clock_now_ms();
	schedule_check(connection->all);
}

static void on_answered(struct evhttp_request *request, void *arg)
{
	(void)request;
	enter(arg, NEXT);
}

void http_connections_answering(struct http_connections *all, struct evhttp_request *request)
{
	const struct evhttp_connection *at = evhttp_request_get_connection(request);

	for (size_t i = 0; i < all->count; i++) {
		if (all->open[i]->at != at)
			continue;
		enter(all->open[i], ANSWER);
		evhttp_request_set_on_complete_cb(request, on_answered, all->open[i]);
	}
}

/* --- All connections --------------------------------------------------------------------------- */

int http_connections_new(struct http_connections **out, struct event_base *base,
	struct evhttp *server, const struct http_limits *limits, struct err *err)
{
	struct http_connections *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return err_memory(err);
	STAILQ_INIT(&all->fresh);
	all->limits = *limits;
	all->open = calloc(limits->connections, sizeof(struct connection *));
	all->sort_event = event_new(base, -1, 0, on_sort, all);
	all->look_event = event_new(base, -1, 0, on_look, all);
	if (all->open == NULL || all->sort_event == NULL || all->look_event == NULL) {
		http_connections_free(all);
		return err_memory(err);
	}
	evhttp_set_bevcb(server, on_accept, all);
	*out = all;
	return 0;
}

void http_connections_free(struct http_connections *all)
{
	if (all == NULL)
		return;
	while (!STAILQ_EMPTY(&all->fresh)) {
		struct connection *connection = STAILQ_FIRST(&all->fresh);

		STAILQ_REMOVE_HEAD(&all->fresh, link);
		(void)bufferevent_decref(connection->buffers);
		free(connection);
	}
	if (all->sort_event != NULL)
		event_free(all->sort_event);
	if (all->look_event != NULL)
		event_free(all->look_event);
	free(all->open);
	free(all);
}
