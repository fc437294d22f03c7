/*
 * The connections of the HTTP server: how many there may be, and for how long one may stay without getting on. libevent
 * 2.1 bounds neither: it drops a connection that is silent, not one that sends a byte now and then. The HTTP thread.
 */
#ifndef ADMIN_HTTP_CONNECTIONS_H
#define ADMIN_HTTP_CONNECTIONS_H

#include <event2/event.h>
#include <event2/http.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct http_limits {
	size_t connections; /* open ones, at most */
	int64_t request_ms; /* from the connection to its first request, whole */
	int64_t answer_ms;  /* until the client has taken an answer */
	int64_t next_ms;    /* from there to the next request, whole */
	int64_t spare_ms;   /* without a request so long: gives way when there are too many */
	int64_t settled_ms; /* after an answer so long: gives way when no other does */
	int64_t log_ms;     /* one line in this time */
};

struct http_connections;

/* Takes over the making of the server's connections. `limits` is copied. */
int http_connections_new(struct http_connections **out, struct event_base *base,
	struct evhttp *server, const struct http_limits *limits, struct err *err);
/* After the server was freed. Takes NULL. */
void http_connections_free(struct http_connections *all);
/* A whole request is there, and is being answered. */
void http_connections_answering(struct http_connections *all, struct evhttp_request *request);

#endif
