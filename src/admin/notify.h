/*
 * Readiness for systemd (sd_notify(3), Type=notify). Does nothing where no service manager listens
 * or where the program was built without libsystemd. Any thread; never blocks for long, never fails:
 * a service manager that cannot be told is no reason to stop.
 */
#ifndef ADMIN_NOTIFY_H
#define ADMIN_NOTIFY_H

#include <stdbool.h>

/* True when this build can talk to systemd. */
bool notify_is_built_in(void);
/* Started: what depends on the service may start. */
void notify_ready(void);
/* A stop was asked for and is on its way. */
void notify_stopping(void);
/* One line for `systemctl status`, in words. */
void notify_status(const char *text);

#endif
