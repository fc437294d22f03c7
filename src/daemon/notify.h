/*
 * Readiness for systemd (sd_notify(3), Type=notify). Does nothing without a service manager or in a
 * build without libsystemd. Any thread. Errors are ignored, because a failed notification is no
 * reason to stop.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdbool.h>

/* True when this build contains libsystemd. */
bool notify_is_built_in(void);
/* The service is started. */
void notify_ready(void);
/* A stop was requested. */
void notify_stopping(void);

#endif
