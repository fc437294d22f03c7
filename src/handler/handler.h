/*
 * The inside of a handler object and how its work is divided: session.c keeps the connection, hello.c
 * writes the first line, lines.c acts on what comes, answer.c writes verdicts, handler.c is what the
 * program calls. One thread, but for stop.
 */
#ifndef HANDLER_HANDLER_H
#define HANDLER_HANDLER_H

#include <stdatomic.h>

#include "handler/delivery.h"
#include "handler/reader.h"
#include "handler/wire.h"

#define IH_MAX_TIMEOUT_MS 31622400000LL /* 366 days; as the next, the protocol's own limit */
#define IH_MAX_WINDOW     1000000       /* deliveries */

/*
 * DOWN ──connect──▶ GREETING ──hello answered──▶ READY ──stop──▶ DRAINING ──▶ CLOSED
 *   ▲                  │                           │                 │
 *   └──── lost ────────┴───────────────────────────┘   lost, done, or bound passed
 * Stop before READY, and a refusal, go straight to CLOSED. Nothing leaves CLOSED.
 */
enum ih_state { IH_DOWN, IH_GREETING, IH_READY, IH_DRAINING, IH_CLOSED };

struct inbox_handler {
	enum ih_state state;
	struct ih_wire wire;
	struct ih_reader *reader;
	struct ih_pool pool;
	struct ih_deliveries ready;     /* received, in order */
	struct ih_deliveries open;      /* the program has them */
	struct inbox_delivery *current; /* the one a callback has; NULL once it has a verdict */
	struct ih_buffer hello;         /* the line that opens each connection */
	char *socket;
	int64_t window; /* asked for with inbox_handler_window(); -1 = never */
	int64_t backoff_ms;
	int64_t backoff_max_ms;
	int failures;      /* connections in a row that came to nothing */
	int64_t due_ms;    /* DOWN: connect then; GREETING, DRAINING: give up then */
	size_t max_line;   /* what the sidecar takes, LF included */
	int64_t handed_us; /* when the last delivery was handed out; 0 = none */
	int64_t held_us;   /* since when answers wait to be sent; 0 = none do */
	int quick;         /* handlings in a row that took no time worth the name */
	int wake_fd;       /* eventfd, readable once stop was asked for */
	atomic_bool stop_asked;
	bool refused;
	void (*log)(const char *text, void *arg);
	void *log_arg;
	char words[512];
};

/* session.c. None of it blocks. */

/* Does what can be done now: connect, greet, send, receive, drain, give up. 0,
 * INBOX_ERROR_REFUSED, INBOX_ERROR_MEMORY. */
int ih_session_step(struct inbox_handler *handler);
/* Sends and receives if there is a connection; for calls within a handling. */
int ih_session_exchange(struct inbox_handler *handler);
/* The connection is gone, or must go: `why` is for the log. Its deliveries are cancelled. */
void ih_session_lost(struct inbox_handler *handler, const char *why);
/* Hands out the oldest ready delivery: it is open then. NULL when there is none. */
struct inbox_delivery *ih_session_take(struct inbox_handler *handler);
/* The same for one that is known to be ready. */
void ih_session_show(struct inbox_handler *handler, struct inbox_delivery *delivery);
/* Milliseconds on the monotonic clock. */
int64_t ih_now_ms(void);

/* lines.c */

/* Does what a line asks for. 0, or INBOX_ERROR_MEMORY: do it again. May end the connection. */
int ih_lines_act(struct inbox_handler *handler, struct ih_line *line);
/* Gives every ready delivery back, unspent. */
void ih_lines_give_back(struct inbox_handler *handler);
/* Tells the sidecar the window, when one was asked for and somebody listens. */
void ih_lines_add_window(struct inbox_handler *handler);

/* hello.c: the line that opens a connection, from options already checked. */
void ih_hello_build(struct ih_buffer *out, const struct inbox_handler_options *options);

/* answer.c */

enum ih_status { IH_DONE, IH_RETRY, IH_DEAD, IH_SNOOZE, IH_SETTLED };

struct ih_verdict {
	enum ih_status status;
	int64_t delay_ms; /* negative = not said */
	const char *reason;
	const char *code;
	struct inbox_bytes result; /* JSON; absent = none */
};

/* Answers and ends a delivery, wherever it is. As the public verdicts. */
int ih_answer(struct inbox_delivery *delivery, const struct ih_verdict *verdict);
/* Ends a delivery nobody waits for. */
void ih_let_go(struct inbox_delivery *delivery);

/* handler.c */

/* Keeps words for inbox_handler_error() and returns `error`. */
int ih_fail(struct inbox_handler *handler, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ih_log(struct inbox_handler *handler, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
