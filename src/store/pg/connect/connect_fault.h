/*
 * Classifies a failed connection attempt: either the server is unreachable and a retry may help, or
 * the configuration is wrong and no retry helps.
 *
 * libpq reports the reason only as text. With PQERRORS_VERBOSE the text contains the SQLSTATE, and
 * these functions read it from there. Mistakes that libpq itself detects get the SQLSTATE F0000
 * (configuration_file_error). Everything that is not certainly a mistake counts as an unreachable
 * server.
 */
#ifndef STORE_PG_CONNECT_CONNECT_FAULT_H
#define STORE_PG_CONNECT_CONNECT_FAULT_H

#include <stdbool.h>

#include "base/err.h"

struct pg_conn;

/* True when libpq rejects the keywords themselves, before any attempt to connect. */
bool connect_is_mistaken(struct pg_conn *conn, const char *const *names, const char *const *values);
/* Sets the fault for connect_is_mistaken(). */
int connect_mistake(const struct pg_conn *conn, struct err *err);
/* Sets the fault for a failed attempt. err->state is the SQLSTATE of the server; it is "" when any
 * of the hosts was unreachable. */
int connect_failed(const struct pg_conn *conn, struct err *err);
/* Sets the fault for a server that answers but that inboxd can never use, for example an old
 * version. */
int connect_wrong(struct err *err, const char *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads the SQLSTATE from libpq's verbose text about one or several hosts. It takes the first one
 * that a retry may cure, otherwise the last one; "" = the text has none. `needs_password`: the last
 * server wanted a password and there was none. For connect_failed() and its test. */
void connect_state(const char *words, bool needs_password, char state[6]);

#endif
