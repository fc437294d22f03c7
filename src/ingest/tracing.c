/*
 * Implements tracing.h.
 */
#include "ingest/tracing.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "trace/trace.h"

static const char *const result_names[] = {
	[ROW_UNKNOWN] = "unknown",
	[ROW_CLAIMED] = "stored",
	[ROW_STORED] = "stored",
	[ROW_DUPLICATE] = "duplicate",
	[ROW_CONFLICT] = "conflict",
	[ROW_REJECTED] = "rejected",
};

static bool is_known(enum insert_result result)
{
	return result == ROW_DUPLICATE || result == ROW_CONFLICT;
}

static void add_spans(struct ingest *ingest, const struct sent_batch *sent,
	const struct batch_row *row, int64_t now_us)
{
	struct trace *trace = ingest->options.trace;
	struct trace_event event = {
		.kind = SPAN_RECEIVE,
		.start_us = sent->since_us,
		.end_us = sent->began_us,
		.since_ms = row->message->timestamp_ms,
		.outcome = "received",
	};
	struct trace_context context;

	if (!trace_wants(trace, row->message, &context))
		return;
	if (is_known(
		    /* perhaps the same record read again, whose first reading used the same span
		     * ids */
		    row->result))
		context.seed ^= random_u64();
	trace_add(trace, &context, row->message, &event);
	event = (struct trace_event){
		.kind = SPAN_STORE,
		.start_us = sent->began_us,
		.end_us = now_us,
		.since_ms = -1,
		.outcome = result_names[row->result],
		.failed = row->result == ROW_CONFLICT || row->result == ROW_REJECTED,
	};
	trace_add(trace, &context, row->message, &event);
}

void tracing_stored(struct ingest *ingest, const struct sent_batch *sent)
{
	int64_t now_us;

	if (ingest->options.trace == NULL)
		return;
	now_us = clock_now_us();
	for (size_t i = 0; i < sent->batch.row_count; i++)
		add_spans(ingest, sent, &sent->batch.rows[i], now_us);
}
