/*
 * The HTTP server: /metrics, /livez, /readyz and /status, for scrapers, kubelets and people. Nothing that
 * comes in over HTTP changes anything but /log-level, and that from this host only. It has its own thread and event loop, so
 * that it answers while everything else hangs: that is when it is asked.
 */
#ifndef ADMIN_HTTP_H
#define ADMIN_HTTP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/metrics.h"
#include "model/health.h"

struct http_limits;

struct http_options {
	const char *listen;      /* host:port or [IPv6]:port; port 0 takes a free one */
	struct metrics *metrics; /* kept, like all below, until http_stop() */
	const struct health *health;
	int64_t lease_ms; /* a heartbeat older than this is not ready */
	/* Appends one JSON object. Called on the HTTP thread: must be safe there and must not wait,
	 * for a database or anything else. */
	void (*status)(struct buf *json, void *arg);
	void *status_arg;
	const struct http_limits *limits; /* of connections; NULL = the usual ones */
};

struct http;

/* Listens and starts the thread, which blocks all signals. Resolving a host name may block.
 * FAULT_CONFIG when `listen` is no address, FAULT_SOCKET when it cannot be listened on. */
int http_start(struct http **out, const struct http_options *options, struct err *err);
/* Ends the thread, closing what is open, and frees everything. Waits for at most the one answer
 * being written. Takes NULL. */
void http_stop(struct http *http);
/* The port listened on. */
int http_port(const struct http *http);

#endif
