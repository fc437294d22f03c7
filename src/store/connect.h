/*
 * Making a connection: keywords from the configuration, deadlines on every step, and a look at what
 * answered. The password goes to libpq and nowhere else.
 */
#ifndef STORE_CONNECT_H
#define STORE_CONNECT_H

#include "base/err.h"
#include "config/config.h"

struct pg_conn;

/* Gives a connection that is ready, nonblocking, and silent about notices. Waits at most
 * connect_timeout (10 s) for each host named. Looking names up is the resolver's own time. */
int connect_run(struct pg_conn **out, const struct settings *settings, const char *application,
	int wake_fd, struct err *err);

#endif
