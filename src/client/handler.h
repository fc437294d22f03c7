/*
 * The internals of the handler library (include/inboxd/handler.h). Calls point down this list:
 *
 *	handler.c     the public functions of the handler object; the only place that waits
 *	options.c     the options of a program, and the hello that is made of them
 *	session.c     connects, reads and sends
 *	lines.c       executes the lines of the sidecar
 *	answer.c      the verdicts
 *	emit.c        the events of an answer
 *	connection.c  the end of a connection, and what it does to deliveries
 *	reader.c      parses a line into deliveries
 *	delivery.c    deliveries and what a program reads in them
 *	wire.c        the socket
 *	error.c       the texts of errors and of the log
 *
 * Of the rest of the tree only base/buf.h and json are linked in, under the names in names.h. One thread for each
 * handler object, except inbox_handler_stop().
 */
#ifndef CLIENT_HANDLER_H
#define CLIENT_HANDLER_H

#include <stdatomic.h>

#include "client/delivery.h"
#include "client/reader.h"
#include "client/wire.h"
#include "json/stream.h"

#define IH_MAX_WINDOW 1000000 /* deliveries; the protocol's own limit */

/*
 * DOWN ──connect──▶ GREETING ──hello answered──▶ READY ──stop──▶ DRAINING ──▶ CLOSED
 *   ▲                  │                           │                 │
 *   └──── lost ────────┴───────────────────────────┘   lost, done, or bound passed
 * A stop before READY and a refusal lead to CLOSED directly. CLOSED is final.
 */
enum ih_state { IH_DOWN, IH_GREETING, IH_READY, IH_DRAINING, IH_CLOSED };

struct ih_backoff {
	int64_t first_ms;
	int64_t max_ms;
	int failures; /* connections in a row that brought no delivery and did not live for LIVED_MS */
	int64_t since_ms; /* when the last connection was lost, or the first attempt failed; 0 = READY, or no attempt failed */
};

/* How quickly the program handles deliveries; handler.c. */
struct ih_pace {
	int64_t handed_us; /* when the last delivery was handed out; 0 = none */
	int64_t held_us;   /* since when answers wait to be sent; 0 = none waits */
	int quick;         /* deliveries in a row that the program handled in less than QUICK_US */
};

struct inbox_handler {
	enum ih_state state;
	struct ih_wire wire;
	struct ih_reader *reader;
	struct ih_pool pool;
	struct ih_deliveries ready;     /* received, in order */
	struct ih_deliveries open;      /* handed out to the program */
	struct inbox_delivery *current; /* of the running callback; NULL after its verdict */
	struct buf hello;               /* the line that opens each connection */
	char *socket;
	int64_t window; /* asked for with inbox_handler_window(); -1 = never */
	struct ih_backoff backoff;
	int64_t due_ms; /* DOWN: when to connect; GREETING, DRAINING: when to give up; READY: when it has lived */
	size_t max_line;           /* the longest line that the sidecar accepts, LF included */
	int64_t timeout_ms;        /* how long a delivery of this connection has */
	enum ih_ordering ordering; /* of this connection */
	bool batch_ordered;        /* the program asked for ordered batches */
	struct ih_pace pace;
	int wake_fd; /* eventfd, readable once stop was asked for */
	atomic_bool stop_asked;
	bool refused;
	void (*log)(const char *text, void *arg);
	void *log_arg;
	char words[512]; /* of the last error */
};

/* options.c */

/* Copies the options of the program and sets the missing ones to their defaults. Strings stay borrowed, also the
 * value of an environment variable. INBOX_ERROR_ARGUMENT, with a text for inbox_handler_error(NULL). */
int ih_options_complete(
	struct inbox_handler_options *out, const struct inbox_handler_options *given);
/* Builds the hello, the first line of a connection: the name, the subscriptions and the limits of the handler. The
 * options must be complete. */
void ih_options_hello(struct buf *out, const struct inbox_handler_options *options);

/* session.c */

/* Does everything that is possible now: connect, send hello, send, receive, drain, give up. Never blocks. 0,
 * INBOX_ERROR_REFUSED, INBOX_ERROR_MEMORY. */
int ih_session_step(struct inbox_handler *handler);

/* lines.c */

/* Executes a line. 0, or INBOX_ERROR_MEMORY: call it again with the same line. May end the connection. */
int ih_lines_act(struct inbox_handler *handler, struct ih_line *line);
/* Returns every ready delivery to the sidecar, without spending an attempt. */
void ih_lines_give_back(struct inbox_handler *handler);
/* Sends the window, if the program has set one and the connection is READY. */
void ih_lines_add_window(struct inbox_handler *handler);

/* answer.c */

enum ih_status { IH_DONE, IH_RETRY, IH_DEAD, IH_SNOOZE, IH_SETTLED, IH_SKIPPED };

struct ih_verdict {
	enum ih_status status;
	int64_t delay_ms; /* negative = not given */
	const char *reason;
	const char *code;
	struct inbox_bytes result; /* JSON; absent = none */
};

/* Answers a delivery and ends it. In an ordered batch, a verdict that does not finish the message also skips the ready
 * messages that must not come before it. Results as those of the public verdicts. */
int ih_answer(struct inbox_delivery *delivery, const struct ih_verdict *verdict);
/* Ends a delivery without an answer, because the sidecar does not wait for one. */
void ih_let_go(struct inbox_delivery *delivery);
/* The bytes that results and events of this delivery may have. */
size_t ih_room(const struct inbox_delivery *delivery);
/* 0 for one JSON value that is not nested deeper than the sidecar accepts, IH_NOT_JSON, or FAULT_MEMORY. The sidecar
 * would replace an answer that is not JSON by a retry, and the program would never learn of it. */
enum { IH_NOT_JSON = 1, IH_NESTING_MAX = 500 };
int ih_check_json(const char *text, size_t length);
/* The same, with a look at each token. IH_NOT_JSON also if `visit` returns false. */
int ih_read_json(const char *text, size_t length, json_visit *visit, void *arg);
/* True if everything was added to a buffer. Without memory it is cut to its former length. */
bool ih_is_whole(struct buf *buffer, size_t length_before);

/* connection.c */

/* Closes a connection that is lost or must end. `why` is logged. Its deliveries are cancelled. */
void ih_connection_lost(struct inbox_handler *handler, const char *why);
/* Makes this ready delivery an open one. */
void ih_show(struct inbox_handler *handler, struct inbox_delivery *delivery);
/* Removes an open delivery from its list and its batch, and returns it to the pool. */
void ih_release(struct inbox_delivery *delivery);
/* Milliseconds on the monotonic clock. */
int64_t ih_now_ms(void);
/* So many milliseconds from now; INT64_MAX if that is too far. */
int64_t ih_due_ms(int64_t timeout_ms);

/* error.c */

/* Keeps a text for inbox_handler_error() and returns `error`. */
int ih_fail(struct inbox_handler *handler, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ih_log(struct inbox_handler *handler, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
