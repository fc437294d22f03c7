/*
 * The answer of GET /config: the configuration that is in use, the origin of each value, and the value after a restart.
 */
#ifndef DAEMON_CONFIG_PAGE_H
#define DAEMON_CONFIG_PAGE_H

#include "base/buf.h"
#include "config/config.h"

/* Runs on the HTTP thread; `arg` is the struct daemon. */
void config_page_add(struct buf *out, bool json, void *arg);
/* Appends {"configuration":[…]} or lines in columns. `running`: a sidecar uses it. */
void config_page_of(struct buf *out, bool json, const struct config *config, bool running);

#endif
