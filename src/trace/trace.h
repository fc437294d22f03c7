/*
 * Spans of what happens to messages, sent to a collector by OTLP/HTTP. Off, there is no thread and no memory: the
 * pointer everybody holds is NULL. On, whoever has something to tell copies a record into a ring and goes on; one
 * thread of its own sends. When the collector is slow or away the ring fills, and what does not fit is dropped and
 * counted: nothing else ever waits for it.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"
#include "base/metrics.h"
#include "trace/context.h"

struct trace;

struct trace_options {
	const char *endpoint; /* http://host:port/path, as the configuration has checked it */
	const char *service;
	const char *instance;
	int64_t one_in; /* traces */
	struct metrics *metrics;
};

/* What is to be told of a message. Times are clock_now_us(). */
struct trace_event {
	enum span_kind kind;
	int64_t start_us;
	int64_t end_us;
	int64_t since_ms; /* it began then, by Kafka's clock, when that is earlier; -1 = unknown */
	int64_t number;   /* of the claim, for deliver and settle */
	int attempt;
	const char *outcome; /* a constant */
	bool failed;
	const char *handler; /* NULL = none */
};

/* Starts the thread. The strings are borrowed until trace_stop(), the metrics too. */
int trace_start(struct trace **out, const struct trace_options *options, struct err *err);
/* Sends what it can for at most a second, counts the rest as dropped, frees. NULL is nothing. */
void trace_stop(struct trace *trace);

/* True when the message is traced: then `out` is what trace_add() wants. Any thread; false for NULL. */
bool trace_wants(
	const struct trace *trace, const struct message *message, struct trace_context *out);
/* Never waits. Any thread. */
void trace_add(struct trace *trace, const struct trace_context *context,
	const struct message *message, const struct trace_event *event);

#endif
