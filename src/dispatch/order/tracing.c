/*
 * The spans that dispatch exports: one for each delivery, and one for the transaction that settled it. Without an
 * exporter, or for a message without a sampled trace context, nothing is recorded. Never blocks: the exporter drops
 * spans when its ring is full.
 */
#include "base/time/clock.h"
#include "dispatch/order/order.h"
#include "trace/trace.h"

static const char *const settle_names[] = {
	[SETTLE_PROCESSED] = "processed",
	[SETTLE_DEAD] = "dead",
	[SETTLE_WAITING] = "waiting",
	[SETTLE_PARKED] = "parked",
};

static bool is_failure(enum entry_end end)
{
	return end == END_RETRY || end == END_DEAD || end == END_TIMEOUT || end == END_CRASH;
}

static struct trace_event event_of(const struct entry *entry, enum span_kind kind)
{
	return (struct trace_event){
		.kind = kind,
		.start_us = entry->delivery.opened_us,
		.end_us = clock_now_us(),
		.since_ms = -1,
		.number = entry->message->delivery_count,
		.attempt = entry->message->retry_count + 1,
		.handler = entry->queue == NULL ? NULL : entry->queue->id.name,
	};
}

void tracing_delivered(const struct order *order, const struct entry *entry)
{
	struct trace_context parent;
	struct trace_event event;
	struct trace *trace = order->context->options.trace;
	const char *outcome;

	if (trace == NULL || entry->state != ENTRY_OPEN ||
		!trace_wants(trace, entry->message, &parent))
		return;
	event = event_of(entry, SPAN_DELIVER);
	outcome = retry_policy_outcome(entry->end);
	event.outcome = outcome == NULL ? "returned" : outcome;
	event.failed = is_failure(entry->end);
	trace_add(trace, &parent, entry->message, &event);
}

/* A message that was never delivered gets no settle span, because there is no delivery span to belong to. A row that
 * was locked or refused, or whose events were, is settled later, and gets its span then. */
void tracing_settled(const struct order *order, const struct entry *entry,
	enum settle_status status, int64_t took_us)
{
	struct trace *trace = order->context->options.trace;
	struct trace_context parent;
	struct trace_event event;

	if (trace == NULL || entry->delivery.opened_us == 0 || status == SETTLE_LOCKED ||
		status == SETTLE_REFUSED || status == SETTLE_UNEMITTED ||
		!trace_wants(trace, entry->message, &parent))
		return;
	event = event_of(entry, SPAN_SETTLE);
	event.start_us = event.end_us - took_us;
	event.outcome = status == SETTLE_COMPLETED ? "processed"
			: status == SETTLE_LOST    ? "claim_lost"
						   : settle_names[entry->verdict.outcome];
	event.failed = status == SETTLE_LOST;
	trace_add(trace, &parent, entry->message, &event);
}
