/*
 * Adopts partitions that are assigned to no member. Every five seconds, and when a look at the table (dispatch) finds such a
 * partition, the thread checks which adopted partitions another instance has taken, gives up those without a handler, and adopts
 * partitions that have waiting messages and no live owner. While a recent look finds none, it does not search for them. The database decides: watermarks_orphans() lists the candidates, and
 * watermarks_adopt() succeeds only without another live owner.
 */
#include "ingest/partitions/flow.h"
#include "ingest/partitions/steps.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/ownership.h"

#define ADOPT_EVERY_MS 5000
/* an instance that is away adopts only what nobody else took for so many leases */
#define AWAY_LEASES    3

/* --- Giving up --------------------------------------------------------------------------------- */

static void let_go_due(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->due)
			ownership_let_go(ingest, ingest->partitions.items[i]);
	}
}

/* Releases the row first. The next owner then finds the rows that this instance still holds; in the
 * other order it could deliver a key while a message of it is still processed here (rule R12). */
static int give_up_due(struct ingest *ingest, struct err *err)
{
	size_t count = 0;
	const struct partition_ref *refs =
		partitions_refs(&ingest->partitions, partition_is_due, &count);
	int r;

	if (count == 0)
		return 0;
	r = watermarks_release(ingest->writer, refs, count, err);
	if (r < 0)
		return r;
	let_go_due(ingest);
	log_info("adoption_ended", LOG_INT("count", (int64_t)count));
	return 0;
}

/* True when no handler here accepted the partition for a whole lease. A shorter time would give it
 * up whenever a handler restarts, and the next adoption would need two leases. */
static bool is_unwanted(const struct ingest *ingest, struct partition *partition, int64_t now_ms)
{
	if (admission_serves(ingest->options.admission, partition->topic))
		partition->unwanted_at_ms = 0;
	else if (partition->unwanted_at_ms == 0)
		partition->unwanted_at_ms = now_ms;
	return partition->unwanted_at_ms != 0 &&
	       now_ms - partition->unwanted_at_ms >= ingest->options.config->worker.lease;
}

/* An instance that has become away gives up all adopted partitions once, so that a member with all
 * handlers can adopt them first (rule R16). */
static int give_up_unwanted(struct ingest *ingest, struct err *err)
{
	int64_t now_ms = clock_now_ms();
	bool away = atomic_load(&ingest->options.health->away);
	bool leaves = away && !ingest->adoption.away;
	int r;

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = partition_is_adopted(partition) &&
				 (leaves || is_unwanted(ingest, partition, now_ms));
	}
	r = give_up_due(ingest, err);
	if (r == 0)
		ingest->adoption.away = away;
	return r;
}

/* Drops adopted partitions that another instance has taken. Nothing else would notice that, because
 * this instance stores no batch for them and so never compares their watermark. */
static int drop_lost(struct ingest *ingest, struct err *err)
{
	struct watermarks rows = { .items = NULL };
	int r = watermarks_peek(ingest->writer, &rows, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->due =
			partition_is_adopted(ingest->partitions.items[i]);
	for (size_t i = 0; i < rows.count; i++) {
		struct partition *partition = partitions_find(
			&ingest->partitions, rows.items[i].topic, rows.items[i].partition);

		if (partition != NULL)
			partition->due = false;
	}
	watermarks_free(&rows);
	let_go_due(ingest);
	return 0;
}

/* --- Adopting ---------------------------------------------------------------------------------- */

/* Marks a partition to adopt. One whose row already names this instance (`mine`) is adopted even
 * without a handler, because no other instance can adopt it; it is given up later if no handler
 * connects. */
static void mark_orphan(const char *topic, int32_t number, bool mine, void *arg)
{
	struct ingest *ingest = arg;
	struct partition *partition;

	if (!mine && !admission_serves(ingest->options.admission, topic))
		return;
	partition = ownership_partition(ingest, topic, number);
	if (partition != NULL)
		partition->due = partition->state == PARTITION_ABSENT &&
				 !partition_is_being_taken(partition);
}

/* The database decides twice: it lists the candidates, and it gives only those that still have no live owner. */
static int adopt(struct ingest *ingest, struct err *err)
{
	enum ordering ordering = admission_strictest(ingest->options.admission);
	int64_t leases = ingest->adoption.away ? AWAY_LEASES : 1;
	struct watermarks rows = { .items = NULL };
	const struct partition_ref *refs;
	size_t count = 0;
	int r;

	partitions_mark_none(&ingest->partitions);
	r = watermarks_orphans(ingest->writer, ingest->options.config->worker.lease * leases,
		mark_orphan, ingest, err);
	if (r < 0)
		return r;
	refs = partitions_refs(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return 0;
	batch_writer_set_ordering(ingest->writer, ordering);
	FAULT_POINT("before_adopt");
	r = watermarks_adopt(ingest->writer, refs, count, &rows, err);
	FAULT_POINT("after_adopt");
	if (r == 0 && rows.count > 0)
		r = acquire_read_audience(ingest, ordering, err);
	if (r == 0 && rows.count > 0)
		r = acquire_begin(ingest, &rows, PARTITION_ADOPTED, err);
	watermarks_free(&rows);
	return r;
}

void adoption_step(struct ingest *ingest)
{
	struct admission_look look = admission_look(ingest->options.admission);
	int64_t now_ms = clock_now_ms();
	bool any = partitions_number(&ingest->partitions, partition_is_adopted) > 0;
	struct err err = ERR_INIT;
	int r = 0;

	if (now_ms < ingest->adoption.at_ms &&
		!(look.orphans && look.at_ms > ingest->adoption.tried_ms))
		return;
	ingest->adoption.at_ms = now_ms + ADOPT_EVERY_MS;
	ingest->adoption.tried_ms = now_ms;
	if (any)
		r = drop_lost(ingest, &err);
	if (r == 0)
		r = give_up_unwanted(ingest, &err);
	if (r == 0 && (look.at_ms == 0 || look.orphans))
		r = adopt(ingest, &err);
	if (r < 0)
		db_outage_begin(ingest, &err);
	else if (r == WRITER_FENCED)
		ingest_fenced(ingest);
}

void adoption_end(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (ingest->outage.down || flow_is_halted(ingest))
		return;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due =
			partition_is_adopted(partition) || partition_is_being_taken(partition);
	}
	if (give_up_due(ingest, &err) < 0)
		log_warn("adoption_not_ended", LOG_STR("error", err.text),
			LOG_STR("next", "another instance may adopt them anyway"));
}
