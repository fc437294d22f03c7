/*
 * The signals of the process, on their own thread: SIGTERM and SIGINT start an orderly stop, a second one ends the
 * process at once, SIGHUP reloads. The thread wakes daemon->supervision.wake.
 *
 * The thread is also the last resort against a call of a library that hangs in another thread, and in the thread that
 * waits for it. A stop and the end of an instance have a time limit; after it the process ends, whatever the other threads
 * do. And if a watched thread hangs for a lease, the instance gives its lease up. The rows that it held go back to
 * waiting when the lease is over.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

#include "daemon/state.h"

/* Must be called before any other thread starts, because threads inherit the blocked signals.
 * FAULT_INTERNAL. */
int signals_start(struct daemon *daemon, struct err *err);
/* Joins the thread, if it was started. */
void signals_end(struct daemon *daemon);

/* From now on the process ends with this code when the time is over, until signals_lift_limit(). An orderly end has the
 * shutdown timeout. */
void signals_limit_end(struct daemon *daemon, bool at_once, int code);
void signals_lift_limit(struct daemon *daemon);
/* Ends the process without waiting for any thread. */
void signals_leave_hanging(int code) __attribute__((noreturn));

#endif
