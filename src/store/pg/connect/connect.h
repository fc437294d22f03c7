/*
 * Opens a connection to PostgreSQL: builds the keywords from the configuration, applies a deadline
 * to every step, and checks the server that answered. The password is given to libpq only. It never
 * appears in an error text or a log line.
 */
#ifndef STORE_PG_CONNECT_CONNECT_H
#define STORE_PG_CONNECT_CONNECT_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

struct pg_conn;

/* Gives a connection that is ready, nonblocking, and that ignores notices. Blocks for at most
 * connect_timeout (default 10 s) for each host. Name resolution is not included: getaddrinfo() has
 * no deadline. `wake_fd` interrupts the wait. */
int connect_run(struct pg_conn **out, const struct settings *settings, const char *application,
	int wake_fd, struct err *err);

/* The connection keywords of this libpq, NULL-terminated, for hints in error texts and for
 * environment variables. Pure. Free with connect_keywords_free(). */
int connect_keywords_new(char ***out, struct err *err);
void connect_keywords_free(char **names);

/* Calls `visit` for each keyword that a connection string (a URI, or keyword=value) sets. FAULT_USAGE: it is none. Pure. */
typedef int connect_visit(const char *keyword, const char *value, void *arg, struct err *err);
int connect_parse(const char *text, connect_visit *visit, void *arg, struct err *err);

/* Appends the version of libpq that is loaded. */
void connect_add_library_version(struct buf *out);

#endif
