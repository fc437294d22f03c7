/*
 * The answer of GET /status.
 */
#ifndef DAEMON_STATUS_PAGE_H
#define DAEMON_STATUS_PAGE_H

#include "base/buf.h"
#include "daemon/state.h"

/* Sets the dispatch from which /status reads the handlers; NULL between two instance runs. Main
 * thread. */
void status_page_show(struct daemon *daemon, struct dispatch *dispatch);
/* Appends the JSON object. `arg` is the daemon. Any thread. */
void status_page_add(struct buf *json, void *arg);

#endif
