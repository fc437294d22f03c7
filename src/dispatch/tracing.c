/*
 * The spans that dispatch exports: one for each delivery, and one for the transaction that settled it. Without an
 * exporter, or for a message without a sampled trace context, nothing is recorded. Never blocks: the exporter drops
 * spans when its ring is full.
 */
#include "base/clock.h"
#include "dispatch/core.h"
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
		.start_us = entry->opened_us,
		.end_us = clock_now_us(),
		.since_ms = -1,
		.number = entry->message->delivery_count,
		.attempt = entry->message->retry_count + 1,
		.handler = entry->handler == NULL ? NULL : entry->handler->name,
	};
}

void tracing_delivered(struct dispatch *dispatch, const struct entry *entry)
{
	struct trace_context context;
	struct trace_event event;
	const char *outcome;

	if (dispatch->options.trace == NULL || entry->state != ENTRY_OPEN ||
		!trace_wants(dispatch->options.trace, entry->message, &context))
		return;
	event = event_of(entry, SPAN_DELIVER);
	outcome = retry_policy_outcome(entry->end);
	event.outcome = outcome == NULL ? "returned" : outcome;
	event.failed = is_failure(entry->end);
	trace_add(dispatch->options.trace, &context, entry->message, &event);
}

/* A message that was never delivered gets no settle span, because there is no delivery span to belong to. A row that
 * was locked or refused is settled later, and gets its span then. */
void tracing_settled(struct dispatch *dispatch, const struct job *job, size_t row)
{
	const struct entry *entry = job->entries[row];
	enum settle_status status = job->rows[row].status;
	struct trace_context context;
	struct trace_event event;

	if (dispatch->options.trace == NULL || entry->opened_us == 0 || status == SETTLE_LOCKED ||
		status == SETTLE_REFUSED ||
		!trace_wants(dispatch->options.trace, entry->message, &context))
		return;
	event = event_of(entry, SPAN_SETTLE);
	event.start_us = event.end_us - job->took_us;
	event.outcome = status == SETTLE_COMPLETED ? "processed"
			: status == SETTLE_LOST    ? "claim_lost"
						   : settle_names[entry->verdict.outcome];
	event.failed = status == SETTLE_LOST;
	trace_add(dispatch->options.trace, &context, entry->message, &event);
}
