/*
 * What a failed connection means: a server that is away, or a mistake that no waiting mends. libpq tells
 * only in words, so the SQLSTATE is read out of them (PQERRORS_VERBOSE); mistakes that libpq itself
 * finds get F0000, configuration_file_error. Whatever is not surely a mistake counts as away.
 */
#ifndef STORE_CONNECT_FAULT_H
#define STORE_CONNECT_FAULT_H

#include <stdbool.h>

#include "base/err.h"

struct pg_conn;

/* True when libpq refuses the keywords themselves and has not tried to connect. */
bool connect_is_mistaken(struct pg_conn *conn, const char *const *names, const char *const *values);
/* The fault for that. */
int connect_mistake(const struct pg_conn *conn, struct err *err);
/* The fault of an attempt that failed; err->state is the server's, "" when any host was away. */
int connect_failed(const struct pg_conn *conn, struct err *err);
/* A server that answers, and will never do. */
int connect_wrong(struct err *err, const char *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads the SQLSTATE out of libpq's verbose words about one host or several: of the first that may come
 * back, else of the last. "" = none was given. For connect_failed() and its test. */
void connect_state(const char *words, char state[6]);

#endif
