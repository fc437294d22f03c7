/*
 * Commits to Kafka the offsets that the database has stored, never higher ones (G1). `offsets.stored` of a partition is
 * the watermark of its last COMMIT that was answered; only this value is committed to Kafka.
 */
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/steps.h"

#define COMMIT_EVERY_MS 200

/* Nothing is committed below the group's own offset. After a failover to an older copy of the
 * database, the watermark is lower and records are read again; the group must keep its higher
 * offset. */
static bool is_uncommitted(const struct partition *partition)
{
	return partition_is_ours(partition) && partition->offsets.stored >= 0 &&
	       partition->offsets.stored != partition->offsets.committed &&
	       partition->offsets.stored > partition->offsets.group;
}

/* The group's offset may be lower than the watermark by what was read in COMMIT_EVERY_MS. After a
 * crash these records are read again as duplicates (ADR 1). */
void commit_offsets_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (now_ms < ingest->commit_offsets_at_ms || flow_is_halted(ingest))
		return;
	ingest->commit_offsets_at_ms = now_ms + COMMIT_EVERY_MS;
	items = partitions_select(&ingest->partitions, is_uncommitted, &count);
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct partition *partition =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition);

		items[i].offset = partition->offsets.stored;
		partition->offsets.committed = partition->offsets.stored;
	}
	FAULT_POINT("before_offset_commit");
	consumer_commit(ingest->consumer, items, count);
	FAULT_POINT("after_offset_sent");
}

/* Includes offsets that were sent and are not confirmed yet, because the answer may arrive after
 * the partition is gone. */
static bool is_due_and_stored(const struct partition *partition)
{
	return partition->due && partition_is_ours(partition) && partition->offsets.stored >= 0 &&
	       partition->offsets.stored > partition->offsets.group;
}

void commit_offsets_due(struct ingest *ingest, int timeout_ms)
{
	struct partition_offset *items;
	struct err err = ERR_INIT;
	size_t count = 0;

	if (flow_is_halted(ingest))
		return;
	items = partitions_select(&ingest->partitions, is_due_and_stored, &count);
	for (size_t i = 0; i < count; i++)
		items[i].offset =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition)
				->offsets.stored;
	FAULT_POINT("before_last_offset_commit");
	if (count > 0 && broker_commit_offsets(consumer_handle(ingest->consumer), items, count,
				 timeout_ms, &err) < 0)
		log_warn("offsets_not_committed", LOG_STR("error", err.text),
			LOG_STR("next",
				"the database has stored them: no message is stored twice"));
}

void commit_offsets_all(struct ingest *ingest, int timeout_ms)
{
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->due = true;
	commit_offsets_due(ingest, timeout_ms);
}

void commit_offsets_failed(void *arg, const struct partition_offset *item)
{
	struct ingest *ingest = arg;
	struct partition *partition =
		partitions_find(&ingest->partitions, item->topic, item->partition);

	if (partition != NULL && partition->offsets.committed == item->offset)
		partition->offsets.committed = -1;
}
