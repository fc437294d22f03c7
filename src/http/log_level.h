/*
 * The log level over HTTP: the only thing that can be changed there, and only from this host. It
 * applies until the next SIGHUP or start, which use the configured level. Any thread.
 */
#ifndef HTTP_LOG_LEVEL_H
#define HTTP_LOG_LEVEL_H

#include "base/buf.h"
#include "base/bytes.h"
#include "http/this_host.h"

/* Appends {"level":"info"}. */
void http_level_show(struct buf *json);

/* Sets the level in `body`: one of the four words, with optional white space around it. Appends the
 * answer and returns its code: 200, 400 (not a level) or 403 (not from this host). */
int http_level_set(struct bytes body, const struct http_client *client, struct buf *json);

#endif
