/*
 * The signals of the process, on their own thread: SIGTERM and SIGINT start an orderly stop, a
 * second one ends the process at once, SIGHUP reloads. The thread wakes daemon->supervision.wake.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

#include "daemon/state.h"

/* Must be called before any other thread starts, because threads inherit the blocked signals.
 * FAULT_INTERNAL. */
int signals_start(struct daemon *daemon, struct err *err);
/* Joins the thread, if it was started. */
void signals_end(struct daemon *daemon);

#endif
