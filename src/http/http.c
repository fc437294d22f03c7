/*
 * The server thread around libevent's evhttp, and the routes. A route fills a reply, and one function
 * sends it, so that every answer has the same headers and HEAD equals GET without the body.
 *
 * A client can use only a limited amount of memory and time: libevent limits the head and the body of
 * a request, connections.c the number of connections and how long each may take. No answer waits
 * for a database or for another thread, because the answers are needed most when the others hang.
 */
#include "http/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "base/time/clock.h"
#include "http/connections.h"
#include "http/health.h"
#include "http/listen.h"
#include "http/log_level.h"
#include "http/metrics_page.h"

#define MAX_REQUEST_HEAD 16384 /* bytes */
#define MAX_REQUEST_BODY 4096  /* bytes; the longest log level has five */
#define MAX_REPLY        (64u << 20)
#define IDLE_SECONDS     30 /* scrapers ask about every 15 s and keep their connection */
#define ACCEPT_PAUSE_MS  1000
#define ALL_METHODS      0x1ff /* all methods that libevent knows: those without a route get a 405 */

#define TYPE_JSON        "application/json"

static const struct http_limits usual_limits = {
	.connections = 64,
	.request_ms = 10000,
	.answer_ms = 30000,
	.next_ms = IDLE_SECONDS * 1000 + 10000,
	.spare_ms = 1000,
	.settled_ms = 5000,
	.log_ms = 60000,
};

struct http {
	struct http_options options;
	struct http_connections *connections;
	struct event_base *base;
	struct evhttp *server;
	struct event *stop_event;
	struct buf body;      /* of the current reply; its memory is reused */
	struct thread thread; /* its wake-up ends the loop */
	int port;
	int64_t since_ms;
};

struct reply {
	int code;
	const char *type;
	const char *allow; /* NULL except for 405 */
	struct buf *body;
};

struct route {
	const char *path;
	void (*answer)(struct http *http, struct evhttp_request *request, struct reply *reply);
	/* handler of PUT; NULL: none. */
	void (*change)(struct http *http, struct evhttp_request *request, struct reply *reply);
};

/* --- Routes ------------------------------------------------------------------------------------ */

static struct health_view view_of(const struct http *http)
{
	return (struct health_view){
		.health = http->options.health,
		.lease_ms = http->options.lease_ms,
		.since_ms = http->since_ms,
		.now_ms = clock_now_ms(),
	};
}

static void answer_metrics(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
	const struct health_view view = view_of(http);

	reply->type = metrics_page_add(
		reply->body, evhttp_find_header(headers, "Accept"), http->options.metrics, &view);
}

static void answer_livez(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	const struct health_view view = view_of(http);

	(void)request;
	reply->code = health_alive(&view, reply->body) ? 200 : 503;
}

static void answer_readyz(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	const struct health_view view = view_of(http);

	(void)request;
	reply->code = health_ready(&view, reply->body) ? 200 : 503;
}

static void answer_status(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	(void)request;
	http->options.status(reply->body, http->options.status_arg);
	buf_add_char(reply->body, '\n');
}

/* The address of the socket to which the client of this request connected. */
static void own_address(struct evhttp_request *request, char *out, size_t size)
{
	struct bufferevent *connection =
		evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));

	http_own_address(bufferevent_getfd(connection), out, size);
}

/* `own` keeps the text of a member. */
static struct http_client client_of(struct evhttp_request *request, char *own, size_t size)
{
	struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
	struct http_client client = { .peer = "", .own = own };
	char *peer = NULL;
	ev_uint16_t port;

	own_address(request, own, size);
	evhttp_connection_get_peer(evhttp_request_get_connection(request), &peer, &port);
	if (peer != NULL)
		client.peer = peer;
	for (const char *const *name = http_proxy_headers; *name != NULL; name++)
		client.forwarded |= evhttp_find_header(headers, *name) != NULL;
	return client;
}

/* Secrets are masked, but hosts and users are not: only this host gets it. */
static void answer_config(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	const char *accept =
		evhttp_find_header(evhttp_request_get_input_headers(request), "Accept");
	bool lines = accept != NULL && strcmp(accept, "text/plain") == 0;
	char own[HTTP_ADDRESS_BYTES];
	const struct http_client client = client_of(request, own, sizeof(own));

	if (http->options.configuration == NULL || !http_is_this_host(&client)) {
		reply->code = 403;
		http_refuse_client(reply->body, &client,
			"the configuration is shown to this host only; run inboxd config there");
		return;
	}
	if (lines)
		reply->type = "text/plain; charset=utf-8";
	http->options.configuration(reply->body, !lines, http->options.status_arg);
}

static void answer_level(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	(void)http;
	(void)request;
	http_level_show(reply->body);
}

static void change_level(struct http *http, struct evhttp_request *request, struct reply *reply)
{
	struct evbuffer *input = evhttp_request_get_input_buffer(request);
	size_t length = evbuffer_get_length(input);
	struct bytes body = { evbuffer_pullup(input, -1), length };
	char own[HTTP_ADDRESS_BYTES];
	const struct http_client client = client_of(request, own, sizeof(own));

	(void)http;
	reply->code = http_level_set(body, &client, reply->body);
}

static const struct route routes[] = {
	{ "/metrics", answer_metrics, NULL },
	{ "/livez", answer_livez, NULL },
	{ "/readyz", answer_readyz, NULL },
	{ "/status", answer_status, NULL },
	{ "/config", answer_config, NULL },
	{ "/log-level", answer_level, change_level },
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

/* Only the path counts: scrapers and probes may add a query. */
static const struct route *find_route(struct evhttp_request *request)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
	const char *path = uri == NULL ? NULL : evhttp_uri_get_path(uri);

	for (size_t i = 0; i < ROUTES && path != NULL; i++) {
		if (strcmp(path, routes[i].path) == 0)
			return &routes[i];
	}
	return NULL;
}

static void answer_unknown_path(struct reply *reply)
{
	reply->code = HTTP_NOTFOUND;
	buf_add_str(reply->body, "{\"error\":\"no such path\",\"paths\":[");
	for (size_t i = 0; i < ROUTES; i++)
		buf_addf(reply->body, "%s\"%s\"", i > 0 ? "," : "", routes[i].path);
	buf_add_str(reply->body, "]}\n");
}

static void answer_wrong_method(const struct route *route, struct reply *reply)
{
	reply->code = HTTP_BADMETHOD;
	reply->allow = route->change == NULL ? "GET, HEAD" : "GET, HEAD, PUT";
	buf_addf(reply->body,
		"{\"error\":\"only %s here; operators use the command line or SQL\"}\n",
		reply->allow);
}

/* --- Replies ----------------------------------------------------------------------------------- */

static void add_header(struct evhttp_request *request, const char *name, const char *value)
{
	(void)evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

static const char *reason_of(int code)
{
	static const struct {
		int code;
		const char *text;
	} reasons[] = {
		{ 200, "OK" },
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 500, "Internal Server Error" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].code == code)
			return reasons[i].text;
	}
	return "";
}

static void send_reply(struct evhttp_request *request, const struct reply *reply)
{
	struct evbuffer *body = evhttp_request_get_output_buffer(request);
	char length[24];

	(void)snprintf(length, sizeof(length), "%zu", reply->body->length);
	add_header(request, "Content-Type", reply->type);
	add_header(request, "Cache-Control", "no-store");
	add_header(request, "Server", HTTP_SERVER); /* for `inboxd config` */
	add_header(request, "Content-Length", length);
	if (reply->allow != NULL)
		add_header(request, "Allow", reply->allow);
	/* libevent 2.1 would send the body of an answer to HEAD. */
	if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD &&
		evbuffer_add(body, reply->body->data, reply->body->length) < 0)
		evhttp_send_error(request, HTTP_INTERNAL, NULL);
	else
		evhttp_send_reply(request, reply->code, reason_of(reply->code), NULL);
}

static void on_request(struct evhttp_request *request, void *arg)
{
	struct http *http = arg;
	const int method = evhttp_request_get_command(request);
	const struct route *route = find_route(request);
	struct reply reply = { .code = HTTP_OK, .type = TYPE_JSON, .body = &http->body };

	http_connections_answering(http->connections, request);
	buf_reset(&http->body);
	if (route == NULL)
		answer_unknown_path(&reply);
	else if (method == EVHTTP_REQ_PUT && route->change != NULL)
		route->change(http, request, &reply);
	else if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
		answer_wrong_method(route, &reply);
	else
		route->answer(http, request, &reply);
	if (!buf_ok(&http->body)) {
		/* half of a page of metrics would look like a page */
		reply = (struct reply){
			.code = HTTP_INTERNAL, .type = TYPE_JSON, .body = &http->body
		};
		buf_reset(&http->body);
		buf_add_str(&http->body, "{\"error\":\"out of memory for the answer\"}\n");
	}
	send_reply(request, &reply);
}

/* --- The server -------------------------------------------------------------------------------- */

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct http *http = arg;

	(void)fd;
	(void)what;
	(void)event_base_loopbreak(http->base);
}

static void on_accept_again(evutil_socket_t fd, short what, void *listener)
{
	(void)fd;
	(void)what;
	(void)evconnlistener_enable(listener);
}

/* Without file descriptors, a waiting connection would wake the loop again at once, forever. `arg`
 * belongs to evhttp. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	const struct timeval pause = { .tv_sec = ACCEPT_PAUSE_MS / 1000 };
	const char *error = strerror(EVUTIL_SOCKET_ERROR());

	(void)arg;
	log_warn("http_accept_failed", LOG_STR("error", error),
		LOG_INT("retry_in_ms", ACCEPT_PAUSE_MS));
	if (event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, on_accept_again,
		    listener, &pause) == 0)
		(void)evconnlistener_disable(listener);
}

static void run(void *arg)
{
	struct http *http = arg;

	(void)event_base_dispatch(http->base);
}

static void http_free(struct http *http)
{
	if (http == NULL)
		return;
	if (http->server != NULL)
		evhttp_free(http->server);
	http_connections_free(http->connections);
	if (http->stop_event != NULL)
		event_free(http->stop_event);
	if (http->base != NULL)
		event_base_free(http->base);
	thread_fini(&http->thread);
	buf_fini(&http->body);
	free(http);
}

DEFINE_CLEANUP(struct http *, http_free);

static int make_loop(struct http *http, struct err *err)
{
	int r = thread_init(&http->thread, err);

	if (r < 0)
		return r;
	http->base = event_base_new();
	if (http->base == NULL)
		return err_memory(err);
	http->server = evhttp_new(http->base);
	http->stop_event = event_new(http->base, http->thread.wake.fd, EV_READ, on_stop, http);
	if (http->server == NULL || http->stop_event == NULL ||
		event_add(http->stop_event, NULL) < 0)
		return err_memory(err);
	/* otherwise libevent itself would answer with its own page */
	evhttp_set_allowed_methods(http->server, ALL_METHODS);
	evhttp_set_max_headers_size(http->server, MAX_REQUEST_HEAD);
	evhttp_set_max_body_size(http->server, MAX_REQUEST_BODY);
	evhttp_set_timeout(http->server, IDLE_SECONDS);
	evhttp_set_gencb(http->server, on_request, http);
	return http_connections_new(&http->connections, http->base, http->server,
		http->options.limits == NULL ? &usual_limits : http->options.limits, err);
}

static int attach_socket(struct http *http, struct err *err)
{
	const unsigned flags = LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_CLOSE_ON_FREE;
	struct evconnlistener *listener;
	int fd;
	int r = http_listen(http->options.listen, &fd, err);

	if (r < 0)
		return r;
	http->port = http_listen_port(fd);
	listener = evconnlistener_new(http->base, NULL, NULL, flags, 0, fd);
	if (listener == NULL) {
		(void)close(fd);
		return err_memory(err);
	}
	if (evhttp_bind_listener(http->server, listener) == NULL) {
		evconnlistener_free(listener);
		return err_memory(err);
	}
	evconnlistener_set_error_cb(listener, on_accept_error);
	return 0;
}

int http_start(struct http **out, const struct http_options *options, struct err *err)
{
	CLEANUP(http_freep) struct http *http = calloc(1, sizeof(*http));
	int r;

	if (http == NULL)
		return err_memory(err);
	http->options = *options;
	http->thread = (struct thread)THREAD_INIT;
	http->body.limit = MAX_REPLY;
	http->since_ms = clock_now_ms();
	metrics_page_begin(options->metrics);
	r = make_loop(http, err);
	if (r < 0)
		return r;
	r = attach_socket(http, err);
	if (r < 0)
		return r;
	http->options.listen = NULL; /* belongs to the caller and is not needed any more */
	r = thread_start(&http->thread, "http", run, http, err);
	if (r < 0)
		return r;
	*out = http;
	http = NULL;
	return 0;
}

void http_stop(struct http *http)
{
	if (http == NULL)
		return;
	thread_request_stop(&http->thread);
	thread_join(&http->thread);
	http_free(http);
}

int http_port(const struct http *http)
{
	return http->port;
}

void http_add_library_version(struct buf *out)
{
	buf_add_str(out, event_get_version());
}
