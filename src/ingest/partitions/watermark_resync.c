/*
 * Implements watermark_resync.h.
 *
 * After a reconnect a resync reads the watermarks under their row locks. The lock waits for a
 * transaction of this instance that may still run on the server, so its outcome is final.
 * reconcile() then compares each watermark with three values: the one before the batch (nothing was
 * stored), the one that the batch would have written (the COMMIT happened although its answer was
 * lost), or another one (an operator, another owner, or an older copy of the database).
 */
#include "ingest/partitions/watermark_resync.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/partitions/acquire.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/ownership.h"
#include "report/meters.h"

#define MORE_ROWS_WAIT_US 300000

/* --- Comparing the watermarks ------------------------------------------------------------------ */

/* The COMMIT happened although its answer was lost. The rows are in the table, and the store has
 * set them to waiting. */
static void commit_happened(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	batch_drop_below(&ingest->batch, partition->topic, partition->partition, row->next_offset);
	partition_note_row(partition, row);
	partition->stored = row->next_offset;
	partition->rewound = false;
	/* the transaction may have contained only the first part of the batch */
	partition->touched = partition->next != row->next_offset;
	wake_poke(ingest->options.dispatch_wake);
}

/* The watermark is lower than this instance wrote it, in the same epoch. So the database itself
 * lost commits, for example in a failover to an asynchronous replica. Everything in the memory of
 * this instance is void (rule R2). */
static void database_went_back(
	struct ingest *ingest, const struct partition *partition, const struct watermark *row)
{
	log_error("watermark_lost", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition),
		LOG_INT("left_at", partition->table_next), LOG_INT("found_at", row->next_offset),
		LOG_STR("next", "register as a new instance and read from the lower offset"));
	ingest_fenced(ingest);
}

/* Decides what the row means. `in_doubt` is set only after an unanswered COMMIT or a failed
 * statement; only then can a higher watermark be the work of this instance. */
static void reconcile(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	bool same = row->epoch == partition->epoch && row->forced == partition->forced;

	if (!row->mine)
		ownership_lost(ingest, partition);
	else if (!same)
		ownership_moved(ingest, partition, row);
	else if (row->next_offset == partition->table_next)
		return;
	else if (partition->in_doubt && row->next_offset == partition->tried_next)
		commit_happened(ingest, partition, row);
	else if (row->next_offset < partition->table_next)
		database_went_back(ingest, partition, row);
	else
		ownership_moved(ingest, partition, row);
}

static bool wants_resync(const struct partition *partition)
{
	return partition_is_ours(partition) || partition->in_doubt;
}

/* Called before and after watermarks_resync(), which sets rows of this instance to waiting. A sweep in
 * between must not conclude that no row waits. */
static void mark_dirty(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->in_doubt)
			admission_dirty(
				ingest->options.admission, ingest->partitions.items[i]->index);
	}
}

static void reconcile_all(struct ingest *ingest, const struct watermarks *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct partition *partition = partitions_find(
			&ingest->partitions, rows->items[i].topic, rows->items[i].partition);

		if (partition != NULL && partition_is_ours(partition))
			reconcile(ingest, partition, &rows->items[i]);
	}
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->in_doubt = false;
}

static int resync(struct ingest *ingest, struct err *err)
{
	struct watermarks rows = { .items = NULL };
	size_t count = 0;
	const struct partition_ref *refs =
		partitions_refs(&ingest->partitions, wants_resync, &count);
	int r;

	if (count == 0)
		return 0;
	mark_dirty(ingest);
	FAULT_POINT("before_resync");
	r = watermarks_resync(ingest->writer, refs, count, &rows, err);
	FAULT_POINT("after_resync");
	mark_dirty(ingest);
	if (r < 0)
		return r;
	if (r == WRITER_FENCED) {
		ingest_fenced(ingest);
	} else if (rows.count < count) {
		log_error("watermark_row_missing", LOG_INT("rows", (int64_t)(count - rows.count)),
			LOG_STR("next", "register as a new instance"));
		ingest_fenced(ingest);
	} else {
		reconcile_all(ingest, &rows);
	}
	watermarks_free(&rows);
	return 0;
}

static int reconnect(struct ingest *ingest, struct err *err)
{
	bool was_open = db_is_open(ingest->db);
	int r = db_open(ingest->db, err);

	if (r == 0 && !was_open)
		r = batch_writer_pin_server_memory(ingest->writer, err);
	if (r < 0)
		return r;
	if (!was_open)
		acquire_drop_all(ingest);
	if (!was_open && ingest->outage.was_connected)
		metric_add(ingest->reconnects, 1);
	ingest->outage.was_connected = true;
	return resync(ingest, err);
}

void watermark_resync_step(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (!ingest->outage.down || (ingest->holds & HOLD_HALTED) != 0 ||
		clock_now_ms() < ingest->outage.retry_at_ms)
		return;
	if (reconnect(ingest, &err) < 0) {
		db_outage_begin(ingest, &err);
		return;
	}
	ingest->outage.down = false;
	if (ingest->commit_unknown)
		commit_handover_lose(ingest->options.commit_handover);
	ingest->commit_unknown = false;
	ingest_unhold(ingest, HOLD_DATABASE);
	if (refused_batches_need_others(&ingest->refused, ingest->batch.row_count))
		ingest->batch_since_us = clock_now_us() + MORE_ROWS_WAIT_US;
	if (ingest->batch.row_count + ingest->batch.reject_count == 0)
		db_outage_over(ingest);
}

void watermark_resync_peek(struct ingest *ingest)
{
	struct watermarks rows = { .items = NULL };
	struct err err = ERR_INIT;
	size_t ours = partitions_number(&ingest->partitions, partition_is_ours);
	size_t seen = 0;

	if (watermarks_peek(ingest->writer, &rows, &err) < 0) {
		db_outage_begin(ingest, &err);
		return;
	}
	for (size_t i = 0; i < rows.count; i++) {
		struct partition *partition = partitions_find(
			&ingest->partitions, rows.items[i].topic, rows.items[i].partition);

		if (partition == NULL || !partition_is_ours(partition))
			continue;
		seen++;
		reconcile(ingest, partition, &rows.items[i]);
	}
	watermarks_free(&rows);
	/* Only the row itself shows its owner, and watermarks_peek() returned none. */
	if (seen < ours)
		db_outage_doubt(ingest);
}
