/*
 * See trace.h. Builds the span of an event and leaves it in the ring; exporter.c sends it. A span must be complete
 * here, because the message may be freed before the span is sent: all texts are copied, and outcomes are constants.
 *
 * The spans of a message form a tree: receive is the child of the producer's span, store and deliver are children of
 * receive, and settle is the child of the deliver span of the same claim. No id is passed along for that; each is
 * computed again from the message (context.h).
 */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time/clock.h"
#include "report/meters.h"
#include "trace/exporter.h"
#include "trace/ring.h"

#define RING_SPANS 4096

struct trace {
	struct ring *ring;
	struct exporter *exporter;
	int64_t one_in;
	struct metric *dropped;
};

/* The exporter goes first, because its thread reads the ring. */
void trace_stop(struct trace *trace)
{
	if (trace == NULL)
		return;
	exporter_stop(trace->exporter);
	ring_free(trace->ring);
	free(trace);
}

DEFINE_CLEANUP(struct trace *, trace_stop);

int trace_start(struct trace **out, const struct trace_options *options, struct err *err)
{
	CLEANUP(trace_stopp) struct trace *trace = calloc(1, sizeof(*trace));
	int r;

	if (trace == NULL)
		return err_memory(err);
	trace->one_in = options->one_in;
	trace->dropped = metrics_get(options->metrics, METER_OTLP_DROPPED, NULL, NULL);
	r = ring_new(&trace->ring, RING_SPANS, err);
	if (r == 0)
		r = exporter_start(&trace->exporter, options, trace->ring, err);
	if (r < 0)
		return r;
	*out = trace;
	trace = NULL;
	return 0;
}

bool trace_wants(
	const struct trace *trace, const struct message *message, struct trace_context *out)
{
	return trace != NULL && trace_context_of(out, message, trace->one_in);
}

/* Copies a text and cuts it at a character. */
static void copy_text(char *out, size_t room, const char *text)
{
	size_t length = strnlen(text, room);

	if (length == room) {
		length--;
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(out, text, length);
	out[length] = '\0';
}

/* The tree at the top of this file. */
static uint64_t parent_of(const struct trace_context *context, const struct trace_event *event)
{
	switch (event->kind) {
	case SPAN_RECEIVE:
		return context->parent;
	case SPAN_SETTLE:
		return trace_span_id(context, SPAN_DELIVER, event->number);
	case SPAN_STORE:
	case SPAN_DELIVER:
		break;
	}
	return trace_span_id(context, SPAN_RECEIVE, 0);
}

void trace_add(struct trace *trace, const struct trace_context *context,
	const struct message *message, const struct trace_event *event)
{
	/* Events are measured on the monotonic clock; OTLP wants the time of day. */
	int64_t wall_us = clock_wall_us() - clock_now_us();
	struct span span = {
		.trace_high = context->trace_high,
		.trace_low = context->trace_low,
		.id = trace_span_id(context, event->kind, event->number),
		.parent = parent_of(context, event),
		.kind = event->kind,
		.start_us = event->start_us + wall_us,
		.end_us = event->end_us + wall_us,
		.outcome = event->outcome,
		.failed = event->failed,
		.attempt = event->attempt,
		.partition = message->partition,
		.offset = message->offset,
	};
	size_t count;

	/* The timestamp is the producer's and can be any number. It is compared before it is multiplied, to avoid an
	 * overflow. */
	if (event->since_ms >= 0 && event->since_ms < span.start_us / 1000)
		span.start_us = event->since_ms * 1000;
	copy_text(span.topic, sizeof(span.topic), message->topic);
	copy_text(span.event_id, sizeof(span.event_id), message->event_id);
	copy_text(span.handler, sizeof(span.handler), event->handler == NULL ? "" : event->handler);
	count = ring_put(trace->ring, &span);
	/* Only the thread that completes a request wakes the exporter. */
	if (count == 0)
		metric_add(trace->dropped, 1);
	else if (count == EXPORT_MOST)
		exporter_poke(trace->exporter);
}
