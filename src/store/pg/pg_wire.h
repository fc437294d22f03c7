/*
 * Two functions on a PostgreSQL connection that do not depend on the pipeline: waiting on its
 * socket, and formatting an error of the server. Any thread.
 */
#ifndef STORE_PG_PG_WIRE_H
#define STORE_PG_PG_WIRE_H

#include <stdint.h>

#include "base/err.h"

struct pg_result;

/* Waits until the socket is ready for `events` of poll(2), the deadline passes, or the wake fd
 * interrupts. Returns 0 or FAULT_DATABASE. */
int pg_wire_wait(int fd, short events, int wake_fd, int64_t deadline_ms, struct err *err);
/* Sets FAULT_DATABASE with message, detail and SQLSTATE of the server, on one line. The details of
 * classes 22 and 23 are omitted: they quote values, and a payload must never appear in a log. */
int pg_wire_error(const struct pg_result *result, struct err *err);

#endif
