/*
 * Implements insert_results.h.
 */
#include "ingest/batch/insert_results.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "report/meters.h"
#include "trace/trace.h"

#define LABEL_BYTES 64

static void count(struct ingest *ingest, enum meter meter, const char *topic, const char *reason)
{
	metric_add(metrics_get(ingest->options.metrics, meter, topic, reason), 1);
}

/* The label of the counter is the text before the colon of "label: description". */
static void note_reject(struct ingest *ingest, const struct message *message, const char *reason)
{
	char label[LABEL_BYTES];

	(void)snprintf(label, sizeof(label), "%.*s", (int)strcspn(reason, ":"), reason);
	count(ingest, METER_REJECTS, message->topic, label);
	log_warn("record_rejected", LOG_STR("topic", message->topic),
		LOG_INT("partition", message->partition), LOG_INT("offset", message->offset),
		LOG_STR("reason", reason),
		LOG_STR("next", "kept in inbox_rejects; the partition continues"));
}

static void note_conflict(struct ingest *ingest, const struct message *message)
{
	count(ingest, METER_CONFLICTS, message->topic, NULL);
	log_warn("id_conflict", LOG_STR("topic", message->topic),
		LOG_INT("partition", message->partition), LOG_INT("offset", message->offset),
		LOG_STR("event_id", message->event_id), LOG_STR("source", message->source),
		LOG_STR("next", "the first payload stays; this one is stored in inbox_conflicts"));
}

/* --- Spans ------------------------------------------------------------------------------------- */

static const char *const result_names[] = {
	[ROW_UNKNOWN] = "unknown",
	[ROW_CLAIMED] = "stored",
	[ROW_STORED] = "stored",
	[ROW_DUPLICATE] = "duplicate",
	[ROW_CONFLICT] = "conflict",
	[ROW_REJECTED] = "rejected",
};

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
	/* perhaps the same record read again, whose first reading used the same span ids */
	if (row->result == ROW_DUPLICATE || row->result == ROW_CONFLICT)
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

/* --- Rows -------------------------------------------------------------------------------------- */

/* Adds the lane of a parked row, where messages wait for each other. Rows are ordered by offset, so the first one of a
 * lane is the lowest. Without memory for the set, a lane is added twice, which is harmless. */
static void note_parked(
	struct ingest *ingest, const struct batch_row *row, struct handover *handover)
{
	const struct message *message = row->message;
	enum ordering ordering = admission_get(ingest->options.admission, row->stream).ordering;
	uint64_t hash = ordering == ORDERING_PARTITION ? 0 : message->key_hash;

	if (ordering != ORDERING_PARTITION &&
		(ordering != ORDERING_KEY || !message_is_keyed(message)))
		return;
	if (lane_set_add(&ingest->storing.parked, row->stream, hash) == 0)
		return;
	handover->parked[handover->parked_count++] =
		(struct parked_key){ row->stream, hash, message->offset };
}

static void note_row(struct ingest *ingest, struct batch_row *row, struct handover *handover)
{
	switch (row->result) {
	case ROW_CLAIMED:
		handover->items[handover->count++] =
			(struct handover_item){ row->message, row->stream };
		row->message = NULL;
		break;
	case ROW_STORED:
		/* a row without a handler is not continued here: a new subscription starts a sweep */
		if (row->placement.kind == PLACEMENT_CLAIMED)
			note_parked(ingest, row, handover);
		break;
	case ROW_DUPLICATE: /* counted once for each record */
		break;
	case ROW_CONFLICT:
		note_conflict(ingest, row->message);
		break;
	case ROW_REJECTED: /* counted as a reject */
	case ROW_UNKNOWN:
		break;
	}
}

/* A record is a duplicate if it is one for all its consumers. */
static bool is_duplicate(const struct batch *batch, size_t first)
{
	size_t i = first;

	do {
		if (batch->rows[i++].result != ROW_DUPLICATE)
			return false;
	} while (i < batch->row_count && batch->rows[i].again);
	return true;
}

void insert_results_apply(struct ingest *ingest, struct sent_batch *sent)
{
	struct batch *batch = &sent->batch;
	size_t freed = 0;
	size_t freed_bytes = 0;
	int64_t now_us = clock_now_us();

	/* before the messages are handed over; one branch when tracing is off */
	for (size_t i = 0; ingest->options.trace != NULL && i < batch->row_count; i++)
		add_spans(ingest, sent, &batch->rows[i], now_us);
	lane_set_clear(&ingest->storing.parked);
	for (size_t i = 0; i < batch->row_count; i++) {
		struct batch_row *row = &batch->rows[i];

		if (row->placement.kind == PLACEMENT_CLAIMED && row->result != ROW_CLAIMED) {
			freed++;
			freed_bytes += row->message->bytes;
		}
		if (!row->again && is_duplicate(batch, i))
			count(ingest, METER_DUPLICATES, row->message->topic, NULL);
		note_row(ingest, row, sent->handover);
	}
	admission_release(ingest->options.admission, freed, freed_bytes);
	for (size_t i = 0; i < batch->reject_count; i++) {
		if (batch->rejects[i].kept)
			note_reject(ingest, batch->rejects[i].message, batch->rejects[i].reason);
	}
}
