/*
 * The handler library of inboxd: a C program processes the messages of the inbox, one after the other.
 *
 * A handler object keeps one connection to the sidecar's socket. It sends hello, receives messages,
 * sends the answers, and reconnects when the connection is lost. There are two styles:
 *
 *   inbox_handler_run() calls a function of yours for every message, until it is stopped;
 *   inbox_handler_next() returns the next message, for programs with a loop of their own.
 *
 * Delivery is at least once: the same message can come again after a crash, a timeout or a lost
 * connection. A handler that must have its effects exactly once calls inbox.complete(claim) in the
 * PostgreSQL transaction of these effects and then answers inbox_delivery_settled().
 *
 * Threads. A handler object and its deliveries belong to one thread at a time; nothing here may be
 * called from two threads at once for the same object, answers included. Only
 * inbox_handler_stop() may be called from any thread and from a signal handler. To work in parallel,
 * create one handler object for each thread: connections of one name share the work.
 *
 * Results. 0 is done; a positive value is an outcome the function names; a negative value is an
 * INBOX_ERROR_*, and inbox_handler_error() returns its text.
 *
 * Signals. The library installs no signal handler and raises no SIGPIPE. It writes nothing to standard
 * streams. Both with the exception of inbox_handler_serve(). Times are milliseconds.
 */
#ifndef INBOXD_HANDLER_H
#define INBOXD_HANDLER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INBOX_API __attribute__((visibility("default")))

enum inbox_outcome {
	INBOX_TIMEOUT = 1, /* no message arrived in time */
	INBOX_STOPPED = 2, /* stopped and drained */
	INBOX_CANCELLED =
		3, /* the answer was not sent: the sidecar does not wait for it any more */
};

enum inbox_error {
	INBOX_ERROR_ARGUMENT = -1, /* an argument is not valid; nothing was done */
	INBOX_ERROR_MEMORY = -2, /* out of memory; nothing is lost, and the call can be repeated */
	INBOX_ERROR_SYSTEM =
		-3, /* the kernel refused a resource of the handler object; see errno */
	INBOX_ERROR_REFUSED = -4, /* the sidecar refused the handler; a retry would not help */
};

struct inbox_handler;
struct inbox_delivery;

/* Borrowed bytes. `data` is NULL if the value is absent, which is different from empty. Otherwise a
 * NUL follows the last byte; `length` does not count it. */
struct inbox_bytes {
	const char *data;
	size_t length;
};

/* A subscription. NULL = any. A type that ends with '*' is a prefix. */
struct inbox_subscription {
	const char *topic;
	const char *const *types; /* ended by NULL */
};

/* The options of a handler. A field that is zero has the default in its comment; only `name` is
 * required. The library copies what it needs, so nothing must live longer than inbox_handler_new(). */
struct inbox_handler_options {
	size_t size;      /* sizeof(struct inbox_handler_options) of the program; 0 = all of 0.1 */
	const char *name; /* connections of one name share the work */
	const char *socket;   /* $INBOXD_SOCKET_PATH, else /run/inboxd/inbox.sock */
	const char *instance; /* the name of the host; operators see it */
	const struct inbox_subscription *subscribe; /* everything */
	size_t subscribe_count;
	int max_in_flight; /* 64: deliveries this connection holds at once, open ones included */
	int64_t timeout_ms; /* 30000, or consumers.NAME.timeout of the sidecar: an answer later than this
			     * counts as a failed attempt */
	int batch_max;      /* 1: a larger value lets deliveries arrive and be answered together */
	int64_t batch_wait_ms;  /* 0: how long the sidecar may wait to fill a batch */
	int64_t backoff_ms;     /* 100: first delay before a reconnect; doubles, with full jitter */
	int64_t backoff_max_ms; /* 10000 */
	/* Called with one line, without a newline, for every connection that is made, lost or refused.
	 * NULL = no log (inbox_handler_serve(): stderr). Runs in the handler's thread and must not call
	 * the library. */
	void (*log)(const char *text, void *arg);
	void *log_arg;
	/* A batch may have several messages of a key (inbox.ordering of the sidecar), in their order. Needs batch_max
	 * above 1. After a message that is not finished (retry, snooze, skipped, no verdict) the library skips those
	 * of its key that it has not handed out. If your program holds several deliveries at once, call
	 * inbox_delivery_skipped() for the later ones of that key yourself. */
	bool batch_ordered; /* false */
	/* The consumer whose messages this handler processes (`consumers` of the sidecar). NULL = the one with the
	 * name of the handler, else the one without a name. */
	const char *consumer;
};

/* Creates a handler object, without connecting. INBOX_ERROR_ARGUMENT, _MEMORY or _SYSTEM;
 * inbox_handler_error(NULL) returns the text. Does not block. */
INBOX_API int inbox_handler_new(
	struct inbox_handler **out, const struct inbox_handler_options *options);

/* Closes the connection at once and frees the object with all its deliveries. Open messages are
 * delivered again, as after a crash. To avoid that, stop and drain first. NULL is allowed. */
INBOX_API void inbox_handler_free(struct inbox_handler *handler);

/* The text of the last error of this object; for NULL, of the last inbox_handler_new() that failed in
 * this thread. Never NULL; borrowed until the next call. */
INBOX_API const char *inbox_handler_error(const struct inbox_handler *handler);

/* A function that handles one message and calls exactly one of the verdicts below. Returning without a
 * verdict is a retry with the code NO_VERDICT. It is called once for each message of a batch. The
 * delivery is not valid after the function has returned. */
typedef void inbox_callback(struct inbox_delivery *delivery, void *arg);

/* Calls `callback` for every message until inbox_handler_stop(). Blocks. Reconnects automatically.
 * Returns 0 when stopped and drained, INBOX_ERROR_REFUSED, or INBOX_ERROR_MEMORY. */
INBOX_API int inbox_handler_run(struct inbox_handler *handler, inbox_callback *callback, void *arg);

/* A complete handler program: new, run, free. SIGTERM and SIGINT stop it; their former actions are
 * restored at the end. Errors are written to stderr. Returns the exit code for main(): 0, or 1 after
 * an error. Only one at a time in a process. */
INBOX_API int inbox_handler_serve(
	const struct inbox_handler_options *options, inbox_callback *callback, void *arg);

/* Returns the next message, or INBOX_TIMEOUT after `timeout_ms` (0 = at once, negative = wait without
 * a limit), INBOX_STOPPED, INBOX_ERROR_REFUSED, INBOX_ERROR_MEMORY. It also sends answers, receives
 * cancels and reconnects. A program that holds open deliveries should call it, or
 * inbox_handler_flush(), often. The caller owns the delivery until it calls a verdict. */
INBOX_API int inbox_handler_next(
	struct inbox_handler *handler, struct inbox_delivery **out, int timeout_ms);

enum { INBOX_POLL_FDS = 2 };

/* For a program that waits in poll(2) for other things, too, and calls inbox_handler_next(handler, &delivery, 0) when
 * one of these descriptors is ready. Fills in the descriptors and their events; an unused one is -1. Returns the
 * milliseconds after which the program must call next() in any case, at most 60,000. Ask again before each wait,
 * because a new connection has another descriptor. Does not block. */
INBOX_API int inbox_handler_poll_fds(
	struct inbox_handler *handler, struct pollfd fds[INBOX_POLL_FDS]);

/* Stops the handler. Messages that are not handed out are returned without spending an attempt. When
 * the open ones have their verdicts, run() returns and next() returns INBOX_STOPPED.
 * Async-signal-safe; any thread; never blocks. The object must not be freed during the call. */
INBOX_API void inbox_handler_stop(struct inbox_handler *handler);

/* Sends the answers given so far. The answers of a quick handler are collected for some milliseconds,
 * and run() and next() send them when that time is over. This call is only useful before work that
 * takes much longer than before. Does not block. Always 0: next() reports a lost connection. */
INBOX_API int inbox_handler_flush(struct inbox_handler *handler);

/* Changes how many deliveries may be open at a time; 0 = a pause. The value also holds after a
 * reconnect. Does not block. INBOX_ERROR_ARGUMENT, INBOX_ERROR_MEMORY. */
INBOX_API int inbox_handler_window(struct inbox_handler *handler, int max_in_flight);

/*
 * The verdicts. Each ends the delivery: after 0 or INBOX_CANCELLED the delivery object is not valid any
 * more; after an INBOX_ERROR_* it stays open. INBOX_CANCELLED: a timeout, a lost lease or a lost
 * connection came first, the answer was not sent, and the message may be delivered again. Texts are
 * copied; bytes that are not UTF-8 are replaced. None of them blocks.
 */

/* The message is processed. */
INBOX_API int inbox_delivery_done(struct inbox_delivery *delivery);
/* The same, and `length` bytes of JSON are stored with the message. INBOX_ERROR_ARGUMENT if they are not
 * one JSON value, or longer than half a line (16 MiB, shared by the answers of a batch). */
INBOX_API int inbox_delivery_done_with(
	struct inbox_delivery *delivery, const char *json, size_t length);

/* A header of an event. A value that is absent is null. */
struct inbox_header {
	const char *name;
	struct inbox_bytes value;
};

/* An event that a handler emits. A field that is NULL or absent is left out. */
struct inbox_event {
	const char *topic; /* topic or aggregate must be given, */
	const char *aggregate;
	const char *type;        /* and the type */
	const char *key;         /* events of one key have an order */
	struct inbox_bytes data; /* the value of the record; absent = a tombstone */
	bool data_is_json; /* PostgreSQL then stores it in its own form: the order of members, spaces */
	const struct inbox_header *headers;
	size_t header_count;
	const char
		*id; /* derived from the message, so that a repeated delivery emits the same id */
	const char *source;
	const char *subject;
};

/* Adds an event to the answer. inboxd stores it together with the completion of the message and publishes it to
 * Kafka. It is sent with inbox_delivery_done() or inbox_delivery_done_with(); another verdict drops it.
 * inbox_delivery_settled() fails with INBOX_ERROR_ARGUMENT if there are events: pass them to
 * inbox.complete(claim, result, emit) in your transaction. Everything is copied. Does not block.
 * INBOX_ERROR_ARGUMENT: a field is missing or not UTF-8, the data is not JSON, it is the 1,001st event, or the answer
 * would be longer than half a line (16 MiB, shared by the answers of a batch). INBOX_ERROR_MEMORY. In both cases the
 * delivery stays open without this event. What else PostgreSQL refuses makes the message a retry with the code EMIT. */
INBOX_API int inbox_delivery_emit(struct inbox_delivery *delivery, const struct inbox_event *event);
/* The same for events that are JSON already: `length` bytes with an array of objects, as `emit` of an answer in the handler
 * protocol. Only their form is checked here. */
INBOX_API int inbox_delivery_emit_json(
	struct inbox_delivery *delivery, const char *json, size_t length);

/* The attempt failed. The message is delivered again after delay_ms; negative = the configured backoff.
 * `reason` (a text for operators) and `code` (for programs) may be NULL. */
INBOX_API int inbox_delivery_retry(
	struct inbox_delivery *delivery, int64_t delay_ms, const char *reason, const char *code);
/* The message failed for good: it is not delivered again, unless an operator replays it. */
INBOX_API int inbox_delivery_dead(
	struct inbox_delivery *delivery, const char *reason, const char *code);
/* The message is delivered again after delay_ms, 100 at least; negative = the configured backoff. This
 * spends no attempt. */
INBOX_API int inbox_delivery_snooze(struct inbox_delivery *delivery, int64_t delay_ms);
/* The same with the reason why the message waits, and its code, as for inbox_delivery_retry(). */
INBOX_API int inbox_delivery_snooze_with(
	struct inbox_delivery *delivery, int64_t delay_ms, const char *reason, const char *code);
/* inbox.complete() was called with the claim, in a transaction that has committed. */
INBOX_API int inbox_delivery_settled(struct inbox_delivery *delivery);
/* The message was not tried, for example because an earlier one of its key was not finished. It is delivered again
 * after that one, or after 100 ms, and nothing is counted. */
INBOX_API int inbox_delivery_skipped(struct inbox_delivery *delivery);

/* Extends the deadline to timeout_ms from now. Sent at once; does not block. INBOX_CANCELLED if it is too
 * late, INBOX_ERROR_ARGUMENT, INBOX_ERROR_MEMORY. The delivery stays open;
 * inbox_delivery_deadline_ms() does not change. */
INBOX_API int inbox_delivery_extend(struct inbox_delivery *delivery, int64_t timeout_ms);
/* NULL, or the reason why the delivery was cancelled: "timeout", "lease_lost", "shutdown",
 * "connection_lost". Reads the socket, which is a system call; does not block. A handler whose work
 * takes long should check it now and then, stop the work, and call any verdict. */
INBOX_API const char *inbox_delivery_cancelled(struct inbox_delivery *delivery);

/*
 * The content of a delivery. Everything is borrowed until its verdict. Texts are never NULL: "" means
 * that the message does not have the value. Numbers are 0 then.
 */
INBOX_API const char *inbox_delivery_claim(const struct inbox_delivery *delivery);
INBOX_API int64_t inbox_delivery_seq(const struct inbox_delivery *delivery);
INBOX_API int inbox_delivery_attempt(const struct inbox_delivery *delivery); /* 1 = the first */
INBOX_API int inbox_delivery_max_attempts(const struct inbox_delivery *delivery);
/* The consumer for which the message is delivered; "" = the one without a name. */
INBOX_API const char *inbox_delivery_consumer(const struct inbox_delivery *delivery);
/* Milliseconds until the deadline, extensions included; negative = it is over. Measured from the arrival of the
 * message with the monotonic clock of this host, so a difference between the clocks of hosts does not matter. */
INBOX_API int64_t inbox_delivery_left_ms(const struct inbox_delivery *delivery);
/* The first deadline in milliseconds since 1970, by PostgreSQL's clock, for log lines. To measure the time that is left,
 * use inbox_delivery_left_ms(). */
INBOX_API int64_t inbox_delivery_deadline_ms(const struct inbox_delivery *delivery);
/* True for a replay by an operator; the message may have been processed before. */
INBOX_API bool inbox_delivery_replay(const struct inbox_delivery *delivery);
/* How many messages of the same batch follow; 0 for the last one, and without a batch. */
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
/* The complete event as it was received: a CloudEvent in JSON. */
INBOX_API struct inbox_bytes inbox_delivery_event(const struct inbox_delivery *delivery);

/* Kafka headers that are not CloudEvents attributes, in order; names may repeat. */
INBOX_API size_t inbox_delivery_header_count(const struct inbox_delivery *delivery);
/* Name ("" beyond the end) and value (absent = null) of header number `index`. */
INBOX_API const char *inbox_delivery_header_name(
	const struct inbox_delivery *delivery, size_t index);
INBOX_API struct inbox_bytes inbox_delivery_header_value(
	const struct inbox_delivery *delivery, size_t index);
/* The last value of the header of this name; absent if there is none or it is null. */
INBOX_API struct inbox_bytes inbox_delivery_header(
	const struct inbox_delivery *delivery, const char *name);

#ifdef __cplusplus
}
#endif

#endif
