/*
 * Who may read the configuration and set the log level: a client on this host, without a proxy between. A proxy on this host
 * connects from here for clients that are elsewhere; it says so in a header. Pure; any thread.
 */
#ifndef HTTP_THIS_HOST_H
#define HTTP_THIS_HOST_H

#include <stdbool.h>

#include "base/buf.h"

/* Borrowed texts. */
struct http_client {
	const char *peer; /* the address of the client */
	const char *own;  /* the address to which it connected */
	bool forwarded;   /* a proxy has passed the request on */
};

/* The headers by which a proxy says that it passes a request on; ended by NULL. */
extern const char *const http_proxy_headers[];

/* True for loopback, and for a client with the address to which it connected: only this host has it. False for a request that
 * a proxy has passed on. */
bool http_is_this_host(const struct http_client *client);

/* Appends the answer to another client: what is for this host only, and what to do instead. */
void http_refuse_client(struct buf *json, const struct http_client *client, const char *text);

#endif
