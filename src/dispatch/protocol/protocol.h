/*
 * The handler protocol, version 1 (docs/handler-protocol.md): reads a line of a client into a struct line, and writes
 * the lines that inboxd sends. Pure: no sockets, and no state between two lines except scratch memory. One thread for
 * each parser.
 *
 * Promise: every byte sequence ends in a struct line, which describes a request, an answer or an error reply. None
 * causes a crash, and the memory for one line is bounded by a multiple of its length.
 */
#ifndef DISPATCH_PROTOCOL_PROTOCOL_H
#define DISPATCH_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "model/message/ordering.h"
#include "model/routing/routing.h"
#include "store/leased_requests.h"

#define PROTOCOL_MAX_LINE     33554432 /* bytes, LF included */
#define PROTOCOL_MAX_SUBS     1000
#define PROTOCOL_MAX_NAME     255 /* bytes of a handler, instance or client name */
#define PROTOCOL_MAX_BATCH    10000
#define PROTOCOL_MAX_WINDOW   1000000
#define PROTOCOL_MAX_TYPE     1024    /* bytes of a type pattern, '*' included */
#define PROTOCOL_MAX_ID       256     /* bytes of a request's id as it was written */
#define PROTOCOL_MAX_DEPTH    512     /* levels of nesting in a line */
#define PROTOCOL_MAX_RESULT   1048576 /* bytes of a result */
#define PROTOCOL_MAX_REASON   4096    /* bytes; longer ones are cut */
#define PROTOCOL_MAX_CODE     64      /* bytes; longer ones are cut */
#define PROTOCOL_MAX_EMIT     1000    /* events of one answer */
#define PROTOCOL_MAX_ECHO     16384   /* bytes of subscriptions in a reply; then they are counted */
#define PROTOCOL_MAX_PARAMS   2097152 /* bytes of the parameters of a leased request */
#define PROTOCOL_MAX_OPEN     64      /* leased requests of a connection without a reply */
#define PROTOCOL_MAX_WAIT_MS  60000   /* how long a partial batch may wait */
#define PROTOCOL_MAX_DELAY_MS 31622400000LL /* a year: longer delays are cut to it */

enum protocol_error {
	PROTOCOL_PARSE = -32700,
	PROTOCOL_INVALID_REQUEST = -32600,
	PROTOCOL_UNKNOWN_METHOD = -32601,
	PROTOCOL_INVALID_PARAMS = -32602,
	PROTOCOL_INTERNAL = -32603,
	PROTOCOL_NOT_AUTHORISED = -32000,
	PROTOCOL_NO_COMMON_VERSION = -32001,
	PROTOCOL_HELLO_ORDER = -32002,
	PROTOCOL_OVERLAP = -32003,
	PROTOCOL_LINE_TOO_LONG = -32004,
	PROTOCOL_UNKNOWN_CONSUMER = -32004, /* data.reason tells them apart */
	PROTOCOL_SUBSCRIPTIONS = -32005,    /* too many, of all handlers together */
	PROTOCOL_REQUESTS_OFF = -32006,
	PROTOCOL_UNKNOWN_DELIVERY = -32010,
	PROTOCOL_TOKEN_LOST = -32011,
	PROTOCOL_TOO_MANY_OPEN = -32012,
	PROTOCOL_DATABASE_AWAY = -32013,
	PROTOCOL_SHUTTING_DOWN = -32020,
};

enum line_kind {
	LINE_INVALID, /* reply with `error_code` and `error_text` */
	LINE_HELLO,
	LINE_EXTEND,
	LINE_WINDOW,
	LINE_DRAIN,
	LINE_POKE,
	LINE_LEASED, /* request.begin and the other methods of leased requests */
	LINE_ANSWER, /* result or error for a delivery or a batch */
};

enum verdict_status {
	STATUS_DONE,
	STATUS_RETRY,
	STATUS_DEAD,
	STATUS_SNOOZE,
	STATUS_SETTLED,
	STATUS_SKIPPED, /* not tried */
	STATUS_TIMEOUT, /* only of a SQL handler: PostgreSQL cancelled the call */
};

/* The answer of a handler to one delivery. A malformed answer becomes STATUS_RETRY with the code PROTOCOL and a
 * reason. An error object becomes STATUS_RETRY with its message as reason and the code HANDLER_ERROR or
 * error.data.code. Only STATUS_DONE keeps a `result`, and only STATUS_DONE has events. */
struct verdict {
	enum verdict_status status;
	int64_t delay_ms; /* -1 = the configured backoff */
	/* The id of the batch entry; absent for a single delivery. An entry without an id is left out, so its
	 * delivery has no verdict and is retried. */
	struct bytes entry;
	/* UTF-8 without NUL, cut to PROTOCOL_MAX_REASON and PROTOCOL_MAX_CODE at a character; absent = none. */
	struct bytes reason;
	struct bytes code;
	struct bytes result; /* JSON text for jsonb, one line; absent = none */
	struct bytes emit; /* events, a JSON array for jsonb that may refuse them; absent = none */
	const char *note;  /* why result, reason or code was replaced (R9), else NULL */
};

struct hello {
	const char *handler;
	const char *consumer; /* NULL = not given, until the consumer is chosen */
	const char *instance; /* "" when not given, as the next */
	const char *client;
	const struct subscription *subscribe; /* a subscription per (topic, type) pair */
	size_t subscribe_count;
	int64_t max_in_flight; /* default 64 */
	int64_t timeout_ms;    /* -1 = not given */
	int64_t batch_max;     /* default 1 */
	int64_t batch_wait_ms; /* default 0 */
	bool batch_ordered;    /* default false */
	const char *role;      /* "requests": no handler, only leased requests; else NULL */
};

/* One line, read. Everything in it but `params` is borrowed from the parser until the next line. */
struct line {
	enum line_kind kind;
	struct bytes id;           /* raw JSON, to be echoed; absent = none, or an answer's */
	int error_code;            /* LINE_INVALID, as the next two */
	char error_text[256];      /* UTF-8, one line */
	bool close;                /* the client uses another framing: end the connection */
	struct hello hello;        /* LINE_HELLO; LINE_INVALID: only the handler, if it was given */
	const char *delivery;      /* LINE_EXTEND, LINE_ANSWER: the delivery's id */
	int64_t timeout_ms;        /* LINE_EXTEND */
	int64_t max_in_flight;     /* LINE_WINDOW */
	enum leased_method method; /* LINE_LEASED, as the next */
	struct bytes
		params; /* JSON text that jsonb accepts; borrowed from the text that was parsed */
	const struct verdict *verdicts; /* LINE_ANSWER: one, or one an entry of a batch answer */
	size_t verdict_count;
	bool batch_answer; /* the answer has "entries"; else one verdict answers all of a batch */
};

struct protocol_parser;

int protocol_parser_new(struct protocol_parser **out, struct err *err);
void protocol_parser_free(struct protocol_parser *parser);
/* Reads one line, given without its LF. The caller limits its length. The only fault is FAULT_MEMORY; an invalid line
 * is LINE_INVALID. Only the `params` of `out` point into `text`. */
int protocol_parse(
	struct protocol_parser *parser, struct bytes text, struct line *out, struct err *err);

/* Lines to send, LF included. `id` is raw JSON; absent = null. */
void protocol_add_error(struct buf *out, struct bytes id, int code, const char *text);
/* The same with data.reason. */
void protocol_add_error_with(
	struct buf *out, struct bytes id, int code, const char *text, const char *reason);
struct hello_reply {
	const char *session;
	int64_t timeout_ms;
	int64_t max_attempts;
	const char *consumer;   /* "" = the one without a name, which is not written */
	enum ordering ordering; /* which messages of an ordered batch have an order */
	/* The subscriptions as they were understood. The reply contains them up to PROTOCOL_MAX_ECHO bytes. */
	const struct subscription *subscribe;
	size_t subscribe_count;
};
void protocol_add_hello_reply(struct buf *out, struct bytes id, const struct hello_reply *reply);
/* For a hello with the role "requests". */
void protocol_add_role_reply(struct buf *out, struct bytes id, const char *session);
/* The reply to a leased request. `result` is JSON on one line. */
void protocol_add_result(struct buf *out, struct bytes id, const char *result);
/* result {}: for an extend or a window that was sent as a request, with an id. */
void protocol_add_empty_reply(struct buf *out, struct bytes id);
void protocol_add_drain_reply(struct buf *out, struct bytes id, int64_t in_flight);
void protocol_add_cancel(struct buf *out, const char *delivery, const char *reason);

/* The head of one delivery: all its members but the event. */
struct delivery_head {
	const char *id;    /* "d9001.2" */
	const char *claim; /* "9001.2.17" */
	int64_t seq;
	const char *consumer; /* "" = the one without a name, which is not written */
	int attempt;
	int64_t max_attempts;
	int64_t deadline_unix_ms;
	bool replay;
};
/* A complete `deliver` line. `event` is the output of event_render(). */
void protocol_add_deliver(struct buf *out, const struct delivery_head *head, struct bytes event);
/* A `deliver_batch` line, in three steps. `id` is the id of the batch. */
void protocol_begin_batch(struct buf *out, const char *id);
void protocol_add_entry(
	struct buf *out, bool first, const struct delivery_head *head, struct bytes event);
void protocol_end_batch(struct buf *out);

#endif
