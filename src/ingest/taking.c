#include "ingest/taking.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/outage.h"
#include "ingest/outbox.h"
#include "store/foreign.h"

#define TAKE_RETRY_MS 100

static void mark_new(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = partition_is_new(partition) && now_ms >= partition->retry_at_ms;
		if (partition->due)
			partition->retry_at_ms = now_ms + TAKE_RETRY_MS;
	}
}

/* Its row is ours. Rows of it may wait: the ordered ones that come ask the table, until a sweep finds that
 * nothing waits there. */
static void taken(struct ingest *ingest, struct partition *partition, const struct watermark *row,
	enum partition_state state)
{
	partition_note_row(partition, row);
	partition->alone = row->forced;
	partition->state = state;
	partition->retry_at_ms = 0;
	gate_dirty(ingest->options.gate, partition->index);
}

static struct partition *partition_of(struct ingest *ingest, const struct watermark *row)
{
	return partitions_find(&ingest->partitions, row->topic, row->partition);
}

/* Dispatch hears of the partitions together with the rows others still hold of them, and before anything
 * is stored of them: so whatever is delivered of a key comes after those (rule R12). */
static int tell_dispatch(struct ingest *ingest, const struct watermarks *rows,
	const struct foreign_claims *foreign, struct err *err)
{
	const struct handover_room room = { .taken = rows->count, .held = foreign->count };
	struct handover *handover = NULL;
	int r = handover_new(&handover, &room, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < rows->count; i++)
		handover->taken[handover->taken_count++] =
			partition_of(ingest, &rows->items[i])->index;
	for (size_t i = 0; i < foreign->count; i++) {
		const struct foreign_claim *claim = &foreign->items[i];

		handover->held[handover->held_count++] = (struct held_row){
			.partition = partition_of(ingest, &rows->items[claim->ref])->index,
			.seq = claim->seq,
			.offset = claim->offset,
			.key_hash = claim->key_hash,
		};
	}
	if (foreign->count > 0)
		log_info("keys_held_back", LOG_INT("messages", (int64_t)foreign->count),
			LOG_STR("next",
				"another sidecar is still at them; their keys go on when it "
				"is done, or its lease is over"));
	outbox_add(ingest, handover);
	return 0;
}

static int find_foreign(struct ingest *ingest, const struct watermarks *rows,
	struct foreign_claims *out, struct err *err)
{
	CLEANUP(freep)
	struct partition_ref *refs = calloc(rows->count + 1, sizeof(*refs));
	const struct foreign_request request = {
		.instance = ingest->options.instance,
		.ordering = ingest->options.config->inbox.ordering,
		.refs = refs,
		.count = rows->count,
	};

	if (refs == NULL)
		return err_memory(err);
	for (size_t i = 0; i < rows->count; i++)
		refs[i] = (struct partition_ref){ rows->items[i].topic, rows->items[i].partition };
	FAULT_POINT("before_foreign");
	return foreign_find(ingest->db, &request, out, err);
}

int taking_begin(struct ingest *ingest, const struct watermarks *rows, enum partition_state state,
	struct err *err)
{
	struct foreign_claims foreign = { NULL, 0 };
	int64_t held = 0;
	int r = find_foreign(ingest, rows, &foreign, err);

	if (r == FOREIGN_MANY && limit_pass(&ingest->place_limit, clock_now_ms(), &held))
		log_info("partitions_wait", LOG_INT("count", (int64_t)rows->count),
			LOG_STR("next", "another sidecar still holds too many of their messages; "
					"asking again"),
			LOG_INT("held_back", held));
	if (r == 0)
		r = tell_dispatch(ingest, rows, &foreign, err);
	for (size_t i = 0; r == 0 && i < rows->count; i++)
		taken(ingest, partition_of(ingest, &rows->items[i]), &rows->items[i], state);
	foreign_claims_fini(&foreign);
	return r;
}

void taking_step(struct ingest *ingest)
{
	struct watermarks rows = { .items = NULL };
	struct err err = ERR_INIT;
	size_t count = 0;
	CLEANUP(freep) struct partition_ref *refs = NULL;
	int r;

	mark_new(ingest);
	refs = partitions_refs(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	FAULT_POINT("before_take");
	r = inbox_take(ingest->inbox, refs, count, &rows, &err);
	FAULT_POINT("after_take");
	if (r == 0 && rows.count > 0)
		r = taking_begin(ingest, &rows, PARTITION_TAKEN, &err);
	watermarks_free(&rows);
	if (r < 0)
		outage_begin(ingest, &err);
	else if (r == INBOX_FENCED)
		ingest_fenced(ingest);
	else
		outage_over(ingest);
}
