/* What `inboxd check` wants to know of http.listen. Main thread; blocks, for some seconds at most. */
#ifndef ADMIN_HTTP_CHECK_H
#define ADMIN_HTTP_CHECK_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

/* Appends what was found: that the address is free, or that the inboxd of this configuration, the one with its
 * socket.path, listens there. Else a fault that says what does. Leaves nothing behind, and never listens: one that
 * starts meanwhile gets the address. */
int http_check(const struct config *config, struct buf *found, struct err *err);

#endif
