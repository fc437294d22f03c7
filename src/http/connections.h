/*
 * Limits the connections of the HTTP server: their number, and the time that one may stay without
 * progress. libevent 2.1 has no such limits: it drops a silent connection, but not one that sends a
 * byte from time to time. The HTTP thread.
 */
#ifndef HTTP_CONNECTIONS_H
#define HTTP_CONNECTIONS_H

#include <event2/event.h>
#include <event2/http.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct http_limits {
	size_t connections; /* maximum number of open connections */
	int64_t request_ms; /* from the connection to its first complete request */
	int64_t answer_ms;  /* until the client has received an answer */
	int64_t next_ms;    /* from an answer to the next complete request */
	/* without a request for so long, a connection can be closed when there are too many */
	int64_t spare_ms;
	int64_t settled_ms; /* so long after an answer, a connection can be closed when no other can */
	int64_t log_ms;     /* at most one log line in this time */
};

struct http_connections;

/* Takes over the creation of the server's connections. Copies `limits`. */
int http_connections_new(struct http_connections **out, struct event_base *base,
	struct evhttp *server, const struct http_limits *limits, struct err *err);
/* Call it after the server was freed. Accepts NULL. */
void http_connections_free(struct http_connections *all);
/* A complete request has arrived and is being answered. */
void http_connections_answering(struct http_connections *all, struct evhttp_request *request);

#endif
