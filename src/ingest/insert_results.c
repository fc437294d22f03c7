/*
 * Implements insert_results.h.
 */
#include "ingest/insert_results.h"

#include <string.h>

#include "base/log.h"
#include "report/meters.h"

#define LABEL_BYTES 64

static void count(struct ingest *ingest, enum meter meter, const char *topic, const char *reason)
{
	metric_add(metrics_get(ingest->options.metrics, meter, topic, reason), 1);
}

/* The label is the text before the colon of "label: description". */
static void reason_label(const char *reason, char out[LABEL_BYTES])
{
	size_t length = strcspn(reason, ":");

	if (length >= LABEL_BYTES)
		length = LABEL_BYTES - 1;
	memcpy(out, reason, length);
	out[length] = '\0';
}

static void note_reject(struct ingest *ingest, const struct message *message, const char *reason)
{
	char label[LABEL_BYTES];

	reason_label(reason, label);
	count(ingest, METER_REJECTS, message->topic, label);
	log_warn("record_rejected", LOG_STR("topic", message->topic),
		LOG_INT("partition", message->partition), LOG_INT("offset", message->offset),
		LOG_STR("reason", reason),
		LOG_STR("next", "kept whole in inbox_rejects; the partition continues"));
}

static void note_conflict(struct ingest *ingest, const struct message *message)
{
	count(ingest, METER_CONFLICTS, message->topic, NULL);
	log_warn("id_conflict", LOG_STR("topic", message->topic),
		LOG_INT("partition", message->partition), LOG_INT("offset", message->offset),
		LOG_STR("event_id", message->event_id), LOG_STR("source", message->source),
		LOG_STR("next", "the first payload stays; this one is stored in inbox_conflicts"));
}

/* A lane matters only where messages wait for each other. */
static bool lane_of(const struct ingest *ingest, const struct message *message, uint64_t *hash)
{
	enum ordering ordering = ingest->options.config->inbox.ordering;

	*hash = ordering == ORDERING_PARTITION ? 0 : message->key_hash;
	return ordering == ORDERING_PARTITION ||
	       (ordering == ORDERING_KEY && message_is_keyed(message));
}

/* Rows are ordered by offset, so the first one of a lane is the lowest. Without memory for the set,
 * a lane is added twice, which is harmless. */
static void note_parked(
	struct ingest *ingest, const struct batch_row *row, struct handover *handover)
{
	uint64_t hash;

	if (!lane_of(ingest, row->message, &hash) ||
		lane_set_add(&ingest->parked, row->partition, hash) == 0)
		return;
	handover->parked[handover->parked_count++] =
		(struct parked_key){ row->partition, hash, row->message->offset };
}

static void hand_over(struct batch_row *row, struct handover *handover)
{
	handover->items[handover->count++] = (struct handover_item){ row->message, row->partition };
	row->message = NULL;
}

static void note_row(struct ingest *ingest, struct batch_row *row, struct handover *handover)
{
	switch (row->result) {
	case ROW_CLAIMED:
		hand_over(row, handover);
		break;
	case ROW_STORED:
		/* a row without a handler is not continued here: a new subscription starts a sweep */
		if (row->placement.kind == PLACEMENT_CLAIMED)
			note_parked(ingest, row, handover);
		break;
	case ROW_DUPLICATE:
		count(ingest, METER_DUPLICATES, row->message->topic, NULL);
		break;
	case ROW_CONFLICT:
		note_conflict(ingest, row->message);
		break;
	case ROW_REJECTED: /* counted as a reject */
	case ROW_UNKNOWN:
		break;
	}
}

void insert_results_apply(struct ingest *ingest, struct sent_batch *sent)
{
	struct batch *batch = &sent->batch;
	size_t freed = 0;
	size_t freed_bytes = 0;

	lane_set_clear(&ingest->parked);
	for (size_t i = 0; i < batch->row_count; i++) {
		struct batch_row *row = &batch->rows[i];

		if (row->placement.kind == PLACEMENT_CLAIMED && row->result != ROW_CLAIMED) {
			freed++;
			freed_bytes += row->message->bytes;
		}
		note_row(ingest, row, sent->handover);
	}
	admission_release(ingest->options.admission, freed, freed_bytes);
	for (size_t i = 0; i < batch->reject_count; i++) {
		if (batch->rejects[i].kept)
			note_reject(ingest, batch->rejects[i].message, batch->rejects[i].reason);
	}
}
