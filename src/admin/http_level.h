/*
 * The log level over HTTP: the one thing that can be changed there, and from this host only. It holds until the next
 * SIGHUP or start, which take the level of the configuration. Any thread.
 */
#ifndef ADMIN_HTTP_LEVEL_H
#define ADMIN_HTTP_LEVEL_H

#include "base/buf.h"
#include "base/bytes.h"

/* Appends {"level":"info"}. */
void http_level_show(struct buf *json);

/* Sets what `body` says: one of the four words, blanks around it allowed. `peer` is who asks, as text. Appends the
 * answer and returns its code: 200, 400 (no level) or 403 (not from this host). */
int http_level_set(struct bytes body, const char *peer, struct buf *json);

#endif
