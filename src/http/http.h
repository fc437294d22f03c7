/*
 * The HTTP server: /metrics, /livez, /readyz, /status and /config, for scrapers, kubelets and people.
 *
 * Over HTTP only /log-level can be changed, and only from this host. The server has its own thread
 * and event loop, so that it answers even when every other thread hangs; health checks matter most
 * at that time.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "report/health.h"
#include "report/metrics.h"

struct http_limits;

struct http_options {
	const char *listen;      /* host:port or [IPv6]:port; port 0 takes a free one */
	struct metrics *metrics; /* kept until http_stop(), like all fields below */
	const struct health *health;
	int64_t lease_ms; /* with an older heartbeat the instance is not ready */
	/* Appends one JSON object. It runs on the HTTP thread and must not wait for a database or
	 * anything else. */
	void (*status)(struct buf *json, void *arg);
	/* Appends the configuration as JSON, or as lines for a person; otherwise as `status`. */
	void (*configuration)(struct buf *out, bool json, void *arg);
	void *status_arg;                 /* of both */
	const struct http_limits *limits; /* limits of connections; NULL = the defaults */
};

struct http;

/* Listens and starts the thread, which blocks all signals. The resolution of a host name may block.
 * FAULT_CONFIG: `listen` is not an address. FAULT_SOCKET: listening failed. */
int http_start(struct http **out, const struct http_options *options, struct err *err);
/* Closes all connections, ends the thread and frees everything. Waits for at most one answer that
 * is being written. Accepts NULL. */
void http_stop(struct http *http);
/* The port of the listening socket. */
int http_port(const struct http *http);

/* Appends the version of libevent that is loaded. */
void http_add_library_version(struct buf *out);

#endif
