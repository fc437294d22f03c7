/*
 * The answer of GET /status.
 */
#ifndef STATUS_H
#define STATUS_H

#include "base/buf.h"
#include "daemon.h"

/* Sets the dispatch from which /status reads the handlers; NULL between two instance runs. Main
 * thread. */
void status_show(struct daemon *daemon, struct dispatch *dispatch);
/* Appends the JSON object. `arg` is the daemon. Any thread. */
void status_add(struct buf *json, void *arg);

#endif
