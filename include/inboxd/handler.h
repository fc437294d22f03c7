/*
 * The handler library of inboxd: messages of the inbox, one after the other, in a C program.
 *
 * A handler object keeps one connection to the sidecar's socket. It says hello, receives messages,
 * sends the answers, and connects again whenever the connection is lost. There are two styles:
 *
 *   inbox_handler_run() calls a function of yours for every message, until it is told to stop;
 *   inbox_handler_next() returns the next message, for programs with a loop of their own.
 *
 * Delivery is at least once: the same message can come again after a crash, a timeout or a lost
 * connection. A handler that must have its effects exactly once calls inbox.complete(claim) in the
 * PostgreSQL transaction of these effects and then answers inbox_delivery_settled().
 *
 * Threads. A handler object and its deliveries belong to one thread at a time; nothing here may be
 * called from two threads at once for the same object, answers included. Only
 * inbox_handler_stop() may be called from anywhere, signal handlers too. To work in parallel, make
 * one handler object a thread: connections of one name share the work.
 *
 * Results. 0 is done; a positive value is an outcome the function names; a negative value is an
 * INBOX_ERROR_*, with words for a person in inbox_handler_error().
 *
 * Signals. The library installs no signal handler (but inbox_handler_serve(), which says so) and
 * raises no SIGPIPE. Times are milliseconds. Nothing here writes to standard streams but
 * inbox_handler_serve().
 */
#ifndef INBOXD_HANDLER_H
#define INBOXD_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INBOX_API __attribute__((visibility("default")))

enum inbox_outcome {
	INBOX_TIMEOUT = 1,   /* nothing came in time */
	INBOX_STOPPED = 2,   /* asked to stop, and everything is drained */
	INBOX_CANCELLED = 3, /* the answer was not sent: nobody waits for it any more */
};

enum inbox_error {
	INBOX_ERROR_ARGUMENT = -1, /* a value that can't be right; nothing happened */
	INBOX_ERROR_MEMORY = -2,   /* out of memory; nothing is lost, the call can be made again */
	INBOX_ERROR_SYSTEM = -3,   /* the kernel refused what a handler object needs; see errno */
	INBOX_ERROR_REFUSED = -4, /* the sidecar refused the handler; trying again would not help */
};

struct inbox_handler;
struct inbox_delivery;

/* A borrowed run of bytes. `data` is NULL when there is nothing, which is not the same as empty; else
 * there is always a NUL behind the last byte, which `length` does not count. */
struct inbox_bytes {
	const char *data;
	size_t length;
};

/* What a handler wants. NULL = any; a type may end in '*', then it is a prefix. */
struct inbox_subscription {
	const char *topic;
	const char *const *types; /* ended by NULL */
};

/* Everything left out (zero) has the default written behind it; only `name` is required. The library
 * copies what it needs: nothing has to outlive inbox_handler_new(). */
struct inbox_handler_options {
	size_t size;      /* sizeof(struct inbox_handler_options) of the program; 0 = all of 0.1 */
	const char *name; /* connections of one name share the work */
	const char *socket;   /* $INBOXD_SOCKET_PATH, else /run/inboxd/inbox.sock */
	const char *instance; /* the host's name; only shown to operators */
	const struct inbox_subscription *subscribe; /* everything */
	size_t subscribe_count;
	int max_in_flight;  /* 64: deliveries this connection holds at once, open ones included */
	int64_t timeout_ms; /* 30000: an answer later than this counts as a failed attempt */
	int batch_max;      /* 1: above, deliveries may come and are answered together */
	int64_t batch_wait_ms;  /* 0: how long the sidecar may wait to fill a batch */
	int64_t backoff_ms;     /* 100: first delay before connecting again; doubles, full jitter */
	int64_t backoff_max_ms; /* 10000 */
	/* Told about every connection made, lost or refused, in one line without newline. NULL = quiet
	 * (inbox_handler_serve(): stderr). Runs in the handler's thread and must not call the library. */
	void (*log)(const char *text, void *arg);
	void *log_arg;
};

/* Gives a handler object; connects nothing yet. INBOX_ERROR_ARGUMENT, _MEMORY or _SYSTEM, the words
 * of which inbox_handler_error(NULL) knows. Does not block. */
INBOX_API int inbox_handler_new(
	struct inbox_handler **out, const struct inbox_handler_options *options);

/* Closes the connection at once and frees the object with every delivery of it. What was open is
 * delivered again, as after a crash: to leave in peace, stop and drain first. NULL is allowed. */
INBOX_API void inbox_handler_free(struct inbox_handler *handler);

/* Words about the last failure of this object; for NULL, of the last failed inbox_handler_new() in
 * this thread. Never NULL; borrowed until the next call. */
INBOX_API const char *inbox_handler_error(const struct inbox_handler *handler);

/* A function that handles one message: it works, and then calls exactly one of the verdicts below.
 * Returning without a verdict is a retry with the code NO_VERDICT. Messages of a batch come one by
 * one. The delivery is gone when the function returns. */
typedef void inbox_callback(struct inbox_delivery *delivery, void *arg);

/* Calls `callback` for every message until inbox_handler_stop(). Blocks. Reconnects by itself.
 * Returns 0 once stopped and drained, INBOX_ERROR_REFUSED, or INBOX_ERROR_MEMORY. */
INBOX_API int inbox_handler_run(struct inbox_handler *handler, inbox_callback *callback, void *arg);

/* A whole handler program: new, run, free; SIGTERM and SIGINT stop it (their former actions are put
 * back at the end), errors go to stderr. Returns what main() should: 0, or 1 after an error. One at
 * a time in a process. */
INBOX_API int inbox_handler_serve(
	const struct inbox_handler_options *options, inbox_callback *callback, void *arg);

/* Gives the next message, or says INBOX_TIMEOUT after `timeout_ms` (0 = at once, negative = wait
 * for ever), INBOX_STOPPED, INBOX_ERROR_REFUSED, INBOX_ERROR_MEMORY. Also sends answers, receives
 * cancels and reconnects: a program that holds open deliveries should call it, or
 * inbox_handler_flush(), often. The caller owns the delivery and gives it back by a verdict. */
INBOX_API int inbox_handler_next(
	struct inbox_handler *handler, struct inbox_delivery **out, int timeout_ms);

/* Asks the handler to stop: messages not yet handed out go back unspent, open ones are waited for,
 * then run() returns and next() says INBOX_STOPPED. Async-signal-safe; any thread; never blocks. The
 * object must not be freed meanwhile. */
INBOX_API void inbox_handler_stop(struct inbox_handler *handler);

/* Sends the answers given so far. Answers of a quick handler travel together for up to some
 * milliseconds; each call of run() and next() sends what is due. Only of use before a piece of work
 * much longer than those before it. Does not block. 0 always: a lost connection shows in next(). */
INBOX_API int inbox_handler_flush(struct inbox_handler *handler);

/* Changes how many deliveries may be open at once; 0 = a pause. Stays after a reconnect. Does not
 * block. INBOX_ERROR_ARGUMENT, INBOX_ERROR_MEMORY. */
INBOX_API int inbox_handler_window(struct inbox_handler *handler, int max_in_flight);

/*
 * The verdicts. Each ends the delivery: the object is gone when 0 or INBOX_CANCELLED comes back, and
 * stays open after an INBOX_ERROR_*. INBOX_CANCELLED: a timeout, a lost lease or a lost connection
 * came first, the answer went nowhere, the message may be handled again. Texts are UTF-8 (what is not
 * is replaced) and copied. None of them blocks.
 */

/* The message is handled. */
INBOX_API int inbox_delivery_done(struct inbox_delivery *delivery);
/* The same, and `length` bytes of JSON are kept with the message. INBOX_ERROR_ARGUMENT when they
 * are not one JSON value, or longer than half a line (16 MiB, shared by the answers of a batch). */
INBOX_API int inbox_delivery_done_with(
	struct inbox_delivery *delivery, const char *json, size_t length);
/* Failed: again after delay_ms, negative = the configured backoff. Spends an attempt. `reason` (for
 * people) and `code` (for machines) may be NULL. */
INBOX_API int inbox_delivery_retry(
	struct inbox_delivery *delivery, int64_t delay_ms, const char *reason, const char *code);
/* Failed for good: no more attempts, until an operator replays it. */
INBOX_API int inbox_delivery_dead(
	struct inbox_delivery *delivery, const char *reason, const char *code);
/* Not now: again after delay_ms, 100 at least; negative = the configured backoff. No attempt spent. */
INBOX_API int inbox_delivery_snooze(struct inbox_delivery *delivery, int64_t delay_ms);
/* inbox.complete() was called with the claim, in a transaction that has committed. */
INBOX_API int inbox_delivery_settled(struct inbox_delivery *delivery);

/* Needs more time: the deadline becomes timeout_ms from now. Sent at once; does not block.
 * INBOX_CANCELLED when it is too late, INBOX_ERROR_ARGUMENT, INBOX_ERROR_MEMORY. The delivery stays
 * open; inbox_delivery_deadline_ms() does not change. */
INBOX_API int inbox_delivery_extend(struct inbox_delivery *delivery, int64_t timeout_ms);
/* NULL while the delivery is wanted; else why it no longer is: "timeout", "lease_lost", "shutdown",
 * "connection_lost". Looks at the socket: a system call, does not block. Work that takes long asks
 * now and then, gives up, and lets go with any verdict. */
INBOX_API const char *inbox_delivery_cancelled(struct inbox_delivery *delivery);

/*
 * What is in a delivery. Everything is borrowed until its verdict. Texts are never NULL: "" stands
 * for what the message does not have. Numbers are 0 then.
 */
INBOX_API const char *inbox_delivery_claim(const struct inbox_delivery *delivery);
INBOX_API int64_t inbox_delivery_seq(const struct inbox_delivery *delivery);
INBOX_API int inbox_delivery_attempt(const struct inbox_delivery *delivery); /* 1 = the first */
INBOX_API int inbox_delivery_max_attempts(const struct inbox_delivery *delivery);
/* Milliseconds since 1970, by the sidecar's clock. */
INBOX_API int64_t inbox_delivery_deadline_ms(const struct inbox_delivery *delivery);
/* An operator asked for this run; the message may have been handled before. */
INBOX_API bool inbox_delivery_replay(const struct inbox_delivery *delivery);
/* How many messages of the same batch are still to come; 0 for the last one, and without a batch. */
INBOX_API size_t inbox_delivery_batch_rest(const struct inbox_delivery *delivery);

INBOX_API const char *inbox_delivery_event_id(const struct inbox_delivery *delivery);
INBOX_API const char *inbox_delivery_source(const struct inbox_delivery *delivery);
INBOX_API const char *inbox_delivery_type(const struct inbox_delivery *delivery);
INBOX_API const char *inbox_delivery_time(const struct inbox_delivery *delivery); /* RFC 3339 */
INBOX_API const char *inbox_delivery_topic(const struct inbox_delivery *delivery);
INBOX_API int inbox_delivery_partition(const struct inbox_delivery *delivery);
INBOX_API int64_t inbox_delivery_offset(const struct inbox_delivery *delivery);
/* The Kafka key, decoded; absent when the message has none. */
INBOX_API struct inbox_bytes inbox_delivery_key(const struct inbox_delivery *delivery);
/* The payload: JSON as it was produced (inbox_delivery_data_is_json()), or any bytes; absent for a
 * tombstone. */
INBOX_API struct inbox_bytes inbox_delivery_data(const struct inbox_delivery *delivery);
INBOX_API bool inbox_delivery_data_is_json(const struct inbox_delivery *delivery);
/* Any other CloudEvents attribute, such as "traceparent" or "datacontenttype"; NULL when absent. */
INBOX_API const char *inbox_delivery_attribute(
	const struct inbox_delivery *delivery, const char *name);
/* The whole event as it came: a CloudEvent in JSON. */
INBOX_API struct inbox_bytes inbox_delivery_event(const struct inbox_delivery *delivery);

/* Kafka headers that are not CloudEvents attributes, in order; names may repeat. */
INBOX_API size_t inbox_delivery_header_count(const struct inbox_delivery *delivery);
/* Name ("" beyond the end) and value (absent = null) of header number `index`. */
INBOX_API const char *inbox_delivery_header_name(
	const struct inbox_delivery *delivery, size_t index);
INBOX_API struct inbox_bytes inbox_delivery_header_value(
	const struct inbox_delivery *delivery, size_t index);
/* The last value of the header of this name; absent when there is none, or it is null. */
INBOX_API struct inbox_bytes inbox_delivery_header(
	const struct inbox_delivery *delivery, const char *name);

#ifdef __cplusplus
}
#endif

#endif
