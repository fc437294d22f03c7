/*
 * Tracing: spans of the processing of messages, sent to a collector by OTLP/HTTP. If it is off, the pointer to struct
 * trace is NULL, and there is no thread and no memory. If it is on, any thread copies a span into a ring, and one
 * thread sends the spans.
 *
 * Promise: no other thread waits for the collector. If it is slow or cannot be reached, the ring becomes full, and
 * further spans are dropped and counted.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"
#include "report/metrics.h"
#include "trace/context.h"

struct trace;

struct trace_options {
	const char *endpoint; /* http://host:port/path, as the configuration has checked it */
	const char *service;
	const char *instance;
	int64_t one_in; /* one of this many traces is exported */
	struct metrics *metrics;
};

/* One span of a message. Times are clock_now_us(). */
struct trace_event {
	enum span_kind kind;
	int64_t start_us;
	int64_t end_us;
	int64_t since_ms; /* an earlier start, by Kafka's clock; -1 = unknown */
	int64_t number;   /* deliver and settle: the number of the claim */
	int attempt;
	const char *outcome; /* a constant */
	bool failed;
	const char *handler; /* NULL = none */
};

/* Starts the thread. The strings are borrowed until trace_stop(), the metrics too. */
int trace_start(struct trace **out, const struct trace_options *options, struct err *err);
/* Sends spans for at most a second, counts the rest as dropped, and frees everything. NULL is allowed. */
void trace_stop(struct trace *trace);

/* True if the message is traced: then `out` is the context for trace_add(). Any thread. False if `trace` is NULL. */
bool trace_wants(
	const struct trace *trace, const struct message *message, struct trace_context *out);
/* Adds a span. Does not block. Any thread. */
void trace_add(struct trace *trace, const struct trace_context *context,
	const struct message *message, const struct trace_event *event);

#endif
