/*
 * Where a bridge takes messages from: one connection to the socket of inboxd, made with the handler library, and the
 * signals of the process. SIGTERM or SIGINT drains: nothing more is delivered, and the open messages are finished. A
 * second one abandons them: inboxd delivers them again.
 *
 * One thread, and one object in a process, because it blocks SIGTERM, SIGINT and SIGCHLD for the process.
 */
#ifndef BRIDGE_INTAKE_H
#define BRIDGE_INTAKE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "inboxd/handler.h"

#define INTAKE_JOBS_MAX 1024
#define INTAKE_FDS      (INBOX_POLL_FDS + 1)

/* Everything is borrowed until intake_open() has returned. */
struct intake_options {
	const char *handler;
	const char *consumer; /* NULL = as inboxd decides */
	const char *socket;
	const char *const *topics; /* each with all types; none = every topic */
	size_t topic_count;
	const char *const *types; /* none = every type */
	size_t type_count;
	int jobs;           /* messages at a time */
	int64_t timeout_ms; /* 0 = that of inboxd */
};

struct intake {
	struct inbox_handler *handler;
	int signal_fd;
	bool stopping;
	bool abandoned; /* end now */
};

enum { INTAKE_NONE = 1, INTAKE_ENDED = 2 };

/* Does not connect yet. FAULT_USAGE, FAULT_MEMORY, FAULT_INTERNAL. intake_close() is allowed after a fault, too. */
int intake_open(struct intake *intake, const struct intake_options *options, struct err *err);
void intake_close(struct intake *intake);

/* Sends and receives what is possible at once, and takes the next message. INTAKE_NONE: there is none now. INTAKE_ENDED:
 * stopped, and every message is answered. FAULT_SOCKET: the sidecar refuses this handler. FAULT_MEMORY. */
int intake_next(struct intake *intake, struct inbox_delivery **out, struct err *err);

/* Fills in the first INTAKE_FDS of what the caller polls. Returns the longest wait in ms. */
int intake_prepare(struct intake *intake, struct pollfd *fds);
/* Reads the signals that have arrived. */
void intake_take_signals(struct intake *intake);

/* When a delivery must be answered, on the monotonic clock in ms. Never 0. */
int64_t intake_deadline_ms(const struct inbox_delivery *delivery);

#endif
