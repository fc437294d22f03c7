/*
 * The known handlers: those that are connected to any instance of the schema, or were within inbox.handler_memory.
 * Messages for a known handler without a connection here wait for it: it is away. They wait until the memory ends or
 * an operator forgets the handler.
 *
 * Promise: no message is routed or claimed before the known handlers have been read once, so none is given to a less
 * specific handler because of a restart. Dispatch thread only; SQL runs on a worker.
 */
#ifndef DISPATCH_SESSIONS_HANDLER_MEMORY_H
#define DISPATCH_SESSIONS_HANDLER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct dispatch;
struct handler;
struct hello;
struct job;

/* What is known about one handler. */
struct known_state {
	bool away;     /* not connected here, but known: its subscriptions are in the routing */
	bool in_table; /* it has a row in the table */
	bool hello_unsaved;  /* its newest hello is not recorded there yet */
	bool leave_unsaved;  /* nor is the end of its last connection */
	bool refusal_logged; /* there was no room for its subscriptions, and the log has it */
	uint64_t changed;    /* handler_memory.changes when it last connected or left */
	int64_t hello_ms;    /* of its newest hello */
	char *subscriptions; /* JSON of the newest hello; NULL: none, or no memory */
};

struct handler_memory {
	bool loaded;        /* who is known has been read, so that messages can be placed */
	bool exchange_soon; /* something changed that the table should have */
	int64_t last_ms;    /* of the last question */
	int64_t next_ms;    /* of the next one, if nothing changes */
	uint64_t changes;   /* of handlers, so far */
};

void handler_memory_init(struct dispatch *dispatch);
/* A handler was forgotten or has changed here: makes an exchange soon. */
void handler_memory_exchange_soon(struct dispatch *dispatch);
/* A handler has sent a valid hello; the last connection of a handler has ended. */
void handler_memory_joined(
	struct dispatch *dispatch, struct handler *handler, const struct hello *hello);
void handler_memory_left(struct dispatch *dispatch, struct handler *handler);
/* Logs that its messages wait from now on. */
void handler_memory_report_away(const struct dispatch *dispatch, const struct handler *handler);
/* Makes an exchange when it is time. Call it only when a worker is idle. */
void handler_memory_run(struct dispatch *dispatch, int64_t now_ms);
void handler_memory_answered(struct dispatch *dispatch, struct job *job);
/* The exchange failed. The next one is made after a pause, so that other jobs can use the worker. */
void handler_memory_failed(struct dispatch *dispatch);

#endif
