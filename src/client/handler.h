/*
 * The internals of the handler library (include/inboxd/handler.h), and how they are divided:
 *
 *	handler.c   the public functions of the handler object; the only place that waits
 *	session.c   connects, reconnects, reads and sends
 *	hello.c     writes the first line of a connection
 *	lines.c     executes the lines of the sidecar
 *	answer.c    writes verdicts
 *	delivery.c  deliveries and what a program reads in them
 *	reader.c, members.c, record.c   parse a line
 *	wire.c, buffer.c, base64.c      bytes
 *
 * The library builds without the rest of the tree. One thread for each handler object, except inbox_handler_stop().
 */
#ifndef CLIENT_HANDLER_H
#define CLIENT_HANDLER_H

#include <stdatomic.h>

#include "client/delivery.h"
#include "client/reader.h"
#include "client/wire.h"

#define IH_MAX_TIMEOUT_MS 31622400000LL /* 366 days; as the next, the protocol's own limit */
#define IH_MAX_WINDOW     1000000       /* deliveries */

/*
 * DOWN ──connect──▶ GREETING ──hello answered──▶ READY ──stop──▶ DRAINING ──▶ CLOSED
 *   ▲                  │                           │                 │
 *   └──── lost ────────┴───────────────────────────┘   lost, done, or bound passed
 * A stop before READY and a refusal lead to CLOSED directly. CLOSED is final.
 */
enum ih_state { IH_DOWN, IH_GREETING, IH_READY, IH_DRAINING, IH_CLOSED };

struct inbox_handler {
	enum ih_state state;
	struct ih_wire wire;
	struct ih_reader *reader;
	struct ih_pool pool;
	struct ih_deliveries ready; /* received, in order */
	struct ih_deliveries open;  /* handed out to the program */
	struct inbox_delivery
		*current;       /* the delivery of the running callback; NULL after its verdict */
	struct ih_buffer hello; /* the line that opens each connection */
	char *socket;
	int64_t window; /* asked for with inbox_handler_window(); -1 = never */
	int64_t backoff_ms;
	int64_t backoff_max_ms;
	int failures;      /* connections in a row that failed before the answer to hello */
	int64_t due_ms;    /* DOWN: when to connect; GREETING, DRAINING: when to give up */
	size_t max_line;   /* the longest line that the sidecar accepts, LF included */
	int64_t handed_us; /* when the last delivery was handed out; 0 = none */
	int64_t held_us;   /* since when answers wait to be sent; 0 = none waits */
	int quick;         /* deliveries in a row that the program handled in less than QUICK_US */
	int wake_fd;       /* eventfd, readable once stop was asked for */
	atomic_bool stop_asked;
	bool refused;
	void (*log)(const char *text, void *arg);
	void *log_arg;
	char words[512];
};

/* session.c. None of these functions blocks. */

/* Does everything that is possible now: connect, send hello, send, receive, drain, give up. 0,
 * INBOX_ERROR_REFUSED, INBOX_ERROR_MEMORY. */
int ih_session_step(struct inbox_handler *handler);
/* Sends and receives if there is a connection. For calls of the program while it handles a delivery. */
int ih_session_exchange(struct inbox_handler *handler);
/* Closes a connection that is lost or must end. `why` is logged. Its deliveries are cancelled. */
void ih_session_lost(struct inbox_handler *handler, const char *why);
/* Hands out the oldest ready delivery, which is open then. NULL: there is none. */
struct inbox_delivery *ih_session_take(struct inbox_handler *handler);
/* Makes this ready delivery an open one. */
void ih_session_show(struct inbox_handler *handler, struct inbox_delivery *delivery);
/* Milliseconds on the monotonic clock. */
int64_t ih_now_ms(void);

/* lines.c */

/* Executes a line. 0, or INBOX_ERROR_MEMORY: call it again with the same line. May end the connection. */
int ih_lines_act(struct inbox_handler *handler, struct ih_line *line);
/* Returns every ready delivery to the sidecar, without spending an attempt. */
void ih_lines_give_back(struct inbox_handler *handler);
/* Sends the window, if the program has set one and the connection is READY. */
void ih_lines_add_window(struct inbox_handler *handler);

/* hello.c: builds the first line of a connection. The options must be checked. */
void ih_hello_build(struct ih_buffer *out, const struct inbox_handler_options *options);

/* answer.c */

enum ih_status { IH_DONE, IH_RETRY, IH_DEAD, IH_SNOOZE, IH_SETTLED };

struct ih_verdict {
	enum ih_status status;
	int64_t delay_ms; /* negative = not given */
	const char *reason;
	const char *code;
	struct inbox_bytes result; /* JSON; absent = none */
};

/* Answers a delivery and ends it. Results as those of the public verdicts. */
int ih_answer(struct inbox_delivery *delivery, const struct ih_verdict *verdict);
/* Ends a delivery without an answer, because the sidecar does not wait for one. */
void ih_let_go(struct inbox_delivery *delivery);

/* handler.c */

/* Keeps a text for inbox_handler_error() and returns `error`. */
int ih_fail(struct inbox_handler *handler, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ih_log(struct inbox_handler *handler, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
