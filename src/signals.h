/*
 * The signals of the process, on a thread of their own: SIGTERM and SIGINT stop in order, a second
 * one at once, SIGHUP reloads. Whoever watches is woken through daemon->supervision.wake.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include "daemon.h"

/* Before any other thread is started: they inherit the blocked signals. FAULT_INTERNAL. */
int signals_start(struct daemon *daemon, struct err *err);
/* Joins the thread, when it was started. */
void signals_end(struct daemon *daemon);

#endif
