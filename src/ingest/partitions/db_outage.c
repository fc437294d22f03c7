/*
 * Implements db_outage.h, db_outage_step() and db_outage_peek(). The retry delay and the log line depend on the class
 * of the error (table `reactions`).
 *
 * An outage ends with a resync. It reads the watermarks under their row locks before anything else is stored (rules
 * R1, R2, R3). The lock waits for a transaction of this instance that may still run on the server, so its outcome is
 * final. reconcile() then compares each watermark with three values: the one before the batch (nothing was stored),
 * the one that the batch would have written (the COMMIT happened although its answer was lost), or another one (an
 * operator, another owner, or an older copy of the database).
 */
#include "ingest/partitions/db_outage.h"

#include "ingest/partitions/audience.h"

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/ownership.h"
#include "ingest/partitions/steps.h"
#include "report/meters.h"

#define FIRST_RETRY_MS    100
/* used when only few rows are refused, which a retry with more rows may resolve */
#define FEW_RETRY_MS      1000
#define FEW_ROWS          10
#define MORE_ROWS_WAIT_US 300000

/* --- Begin and end ----------------------------------------------------------------------------- */

/* The log line and the retry limit for each class of error. `away`: the database does not work at
 * all. */
/* clang-format off */
static const struct reaction {
	const char *event;
	const char *next;
	int64_t last_retry_ms;
	bool away;
} reactions[PG_ERROR_KINDS] = {
	[PG_ERROR_LOST] = { "database_lost", "reconnect", 10000, true },
	[PG_ERROR_BUSY] = { "database_busy", "retry on this connection", 1000, false },
	[PG_ERROR_SLOW] = { "database_busy", "retry on this connection with half as many rows", 1000, false },
	[PG_ERROR_RESOURCES] = { "database_full", "retry until the server has free resources", 10000, true },
	[PG_ERROR_READ_ONLY] = { "database_read_only", "reconnect and look for the primary", 3000, true },
	[PG_ERROR_STALE] = { "database_busy", "retry on this connection without prepared statements", 1000, false },
	[PG_ERROR_REFUSED] = { "database_refuses", "retry until an operator has corrected it", 10000, true },
	[PG_ERROR_DATA] = { "database_refuses", "retry; after three refusals row by row", 10000, true },
	[PG_ERROR_OTHER] = { "database_refuses", "retry; after three refusals row by row", 10000, true },
};
/* clang-format on */

static const char by_rows[] =
	"retry row by row: a row that is refused while another is stored goes to inbox_rejects";

static int64_t schedule(struct ingest *ingest, int64_t last_retry_ms)
{
	struct outage *outage = &ingest->outage;
	int64_t delay =
		backoff_delay_ms(FIRST_RETRY_MS, last_retry_ms, outage->attempt++, random_u64());

	outage->retry_at_ms = clock_now_ms() + delay;
	return delay;
}

static void mark_down(struct ingest *ingest)
{
	ingest->outage.down = true;
	flow_stop_all(ingest, STOP_DATABASE);
}

void db_outage_begin(struct ingest *ingest, const struct err *err)
{
	enum pg_error_class class = db_error_kind(err);
	const struct reaction *reaction = &reactions[class];
	const struct refused_batches *refused = &ingest->storing.refused;
	bool by_row = refused_batches_are_enough(refused);
	const unsigned kind = by_row ? PG_ERROR_KINDS : class;
	const int64_t now_ms = clock_now_ms();
	int64_t delay;

	if (err->fault != FAULT_DATABASE) {
		ingest_fault(ingest, err);
		return;
	}
	metric_add(metrics_get(ingest->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	/* a retry of so few rows costs little */
	delay = schedule(ingest,
		by_row && refused->rows <= FEW_ROWS ? FEW_RETRY_MS : reaction->last_retry_ms);
	mark_down(ingest);
	if (reaction->away)
		atomic_store(&ingest->options.health->storing_fails, true);
	if (outage_log_failed(&ingest->outage.log, kind, now_ms))
		log_warn(reaction->event, LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state),
			LOG_STR("class", pg_error_class_name(class)), LOG_INT("retry_in_ms", delay),
			LOG_STR("next", by_row ? by_rows : reaction->next),
			LOG_OUTAGE(&ingest->outage.log, now_ms));
}

void db_outage_doubt(struct ingest *ingest)
{
	if (ingest->outage.attempt == 0)
		ingest->outage.retry_at_ms = clock_now_ms();
	else
		(void)schedule(ingest, reactions[PG_ERROR_LOST].last_retry_ms);
	ingest->outage.attempt++;
	mark_down(ingest);
}

void db_outage_over(struct ingest *ingest)
{
	struct outage_log ended;

	if (outage_log_ended(&ingest->outage.log, &ended))
		log_info("database_back", LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	ingest->outage.attempt = 0;
	atomic_store(&ingest->options.health->storing_fails, false);
}

/* --- Comparing the watermarks ------------------------------------------------------------------ */

/* The COMMIT happened although its answer was lost. The rows are in the table, and the store has
 * set them to waiting. */
static void commit_happened(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	batch_drop_below(
		&ingest->storing.batch, partition->topic, partition->partition, row->next_offset);
	partition_note_row(partition, row);
	partition->offsets.stored = row->next_offset;
	partition->start.rewound = false;
	/* the transaction may have contained only the first part of the batch */
	partition->update.touched = partition->read.next != row->next_offset;
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
		LOG_INT("left_at", partition->table.next), LOG_INT("found_at", row->next_offset),
		LOG_STR("next", "register as a new instance and read from the lower offset"));
	ingest_fenced(ingest);
}

/* Only the epoch has changed: inbox.backfill() has added rows that wait, or a consumer was renamed. A batch that was placed
 * without them is rolled back because of the epoch. From now on the INSERT checks the table for
 * earlier rows of each key, until a sweep finds that no row waits (rule R11). */
static void rows_were_added(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	partition_note_row(partition, row);
	audience_dirty(ingest, partition);
}

/* Decides what the row means. `in_doubt` is set only after an unanswered COMMIT or a failed
 * statement; only then can a higher watermark be the work of this instance. */
static void reconcile(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	bool same = row->epoch == partition->table.epoch && row->forced == partition->table.forced;

	/* also if an unanswered COMMIT or a seek has moved the watermark: the next batch has the new epoch */
	if (row->epoch != partition->table.epoch)
		ingest->audiences.doubtful = true;
	if (!row->mine)
		ownership_lost(ingest, partition);
	else if (row->epoch != partition->table.epoch && row->forced == partition->table.forced &&
		 row->next_offset == partition->table.next)
		rows_were_added(ingest, partition, row);
	else if (!same)
		ownership_moved(ingest, partition, row);
	else if (row->next_offset == partition->table.next)
		return;
	else if (partition->update.in_doubt && row->next_offset == partition->update.tried_next)
		commit_happened(ingest, partition, row);
	else if (row->next_offset < partition->table.next)
		database_went_back(ingest, partition, row);
	else
		ownership_moved(ingest, partition, row);
}

static bool wants_resync(const struct partition *partition)
{
	return partition_is_ours(partition) || partition->update.in_doubt;
}

/* Called before and after watermarks_resync(), which sets rows of this instance to waiting. A sweep in
 * between must not conclude that no row waits. */
static void mark_dirty(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->update.in_doubt)
			audience_dirty(ingest, ingest->partitions.items[i]);
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
		ingest->partitions.items[i]->update.in_doubt = false;
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

	if (r < 0)
		return r;
	if (!was_open && ingest->outage.connections++ > 0)
		metric_add(ingest->outage.reconnects, 1);
	r = resync(ingest, err);
	return r < 0 ? r : audience_check_names(ingest, err);
}

void db_outage_step(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (!ingest->outage.down || flow_is_halted(ingest) ||
		clock_now_ms() < ingest->outage.retry_at_ms)
		return;
	if (reconnect(ingest, &err) < 0) {
		db_outage_begin(ingest, &err);
		return;
	}
	ingest->outage.down = false;
	if (ingest->storing.commit_unknown)
		commit_handover_lose(ingest->options.commit_handover);
	ingest->storing.commit_unknown = false;
	flow_go_on(ingest, STOP_DATABASE);
	if (refused_batches_need_others(&ingest->storing.refused, ingest->storing.batch.row_count))
		ingest->storing.since_us = clock_now_us() + MORE_ROWS_WAIT_US;
	if (ingest->storing.batch.row_count + ingest->storing.batch.reject_count == 0)
		db_outage_over(ingest);
}

void db_outage_peek(struct ingest *ingest)
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
	if (audience_check_names(ingest, &err) < 0)
		db_outage_begin(ingest, &err);
}
