/* Which handlers are known, connected or not: see handler_memory.c. Dispatch thread only. */
#ifndef DISPATCH_HANDLER_MEMORY_H
#define DISPATCH_HANDLER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct dispatch;
struct handler;
struct hello;
struct job;

/* What is known of one handler. */
struct known_state {
	bool away;     /* not connected here, but known: its subscriptions are in the routing */
	bool in_table; /* it has a row in the table */
	bool hello_unsaved;  /* its newest hello is not recorded there yet */
	bool leave_unsaved;  /* nor is the end of its last connection */
	bool refusal_logged; /* there was no room for its subscriptions, and the log has it */
	uint64_t changed;    /* memory.changes when it connected or left last */
	int64_t hello_ms;
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
/* Somebody was forgotten, or something changed here: ask again soon. */
void handler_memory_exchange_soon(struct dispatch *dispatch);
/* A handler said hello; its last connection ended. */
void handler_memory_joined(
	struct dispatch *dispatch, struct handler *handler, const struct hello *hello);
void handler_memory_left(struct dispatch *dispatch, struct handler *handler);
/* Logs that its messages wait from now on. */
void handler_memory_report_away(const struct dispatch *dispatch, const struct handler *handler);
/* Asks when it is time. Only when a worker is idle. */
void handler_memory_run(struct dispatch *dispatch, int64_t now_ms);
void handler_memory_answered(struct dispatch *dispatch, struct job *job);
/* No answer: asks again after a pause, in which others have their turn at the workers. */
void handler_memory_failed(struct dispatch *dispatch);

#endif
