/*
 * What a conversation with PostgreSQL needs and a connection need not be known for: the wait on its socket, and
 * the server's own words for what went wrong. Any thread.
 */
#ifndef STORE_WIRE_H
#define STORE_WIRE_H

#include <stdint.h>

#include "base/err.h"

struct pg_result;

/* Until the socket is ready for `events` of poll(2), the deadline passes, or somebody interrupts. 0, or
 * FAULT_DATABASE. */
int wire_wait(int fd, short events, int wake_fd, int64_t deadline_ms, struct err *err);
/* FAULT_DATABASE in PostgreSQL's own words: message, detail, SQLSTATE, one line. Details of the
 * classes 22 and 23 are left out: they quote the values, and payloads never get into a log. */
int wire_error(const struct pg_result *result, struct err *err);

#endif
