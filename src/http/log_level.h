/*
 * The log level over HTTP: the only thing that can be changed there, and only from this host. It
 * applies until the next SIGHUP or start, which use the configured level. Any thread.
 */
#ifndef HTTP_LOG_LEVEL_H
#define HTTP_LOG_LEVEL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"

/* Appends {"level":"info"}. */
void http_level_show(struct buf *json);

/* True for the address of a client on this host. */
bool http_is_this_host(const char *peer);

/* Sets the level in `body`: one of the four words, with optional white space around it. `peer` is
 * the address of the client as text. Appends the answer and returns its code: 200, 400 (not a
 * level) or 403 (not from this host). */
int http_level_set(struct bytes body, const char *peer, struct buf *json);

#endif
