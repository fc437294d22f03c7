/*
 * Implements offsets.h. `stored` of a partition is the watermark of its last COMMIT that was
 * answered; only this value is committed to Kafka.
 */
#include "ingest/partitions/offsets.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/kafka/broker_query.h"
#include "report/meters.h"

#define COMMIT_EVERY_MS 200
#define ENDS_EVERY_MS   10000
#define ENDS_WAIT_MS    500

/* Nothing is committed below the group's own offset. After a failover to an older copy of the
 * database, the watermark is lower and records are read again; the group must keep its higher
 * offset. */
static bool is_uncommitted(const struct partition *partition)
{
	return partition_is_ours(partition) && partition->stored >= 0 &&
	       partition->stored != partition->committed && partition->stored > partition->group;
}

/* The group's offset may be lower than the watermark by what was read in COMMIT_EVERY_MS. After a
 * crash these records are read again as duplicates (ADR 1). */
void offsets_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (now_ms < ingest->commit_at_ms || (ingest->holds & HOLD_HALTED) != 0)
		return;
	ingest->commit_at_ms = now_ms + COMMIT_EVERY_MS;
	items = partitions_select(&ingest->partitions, is_uncommitted, &count);
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct partition *partition =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition);

		items[i].offset = partition->stored;
		partition->committed = partition->stored;
	}
	FAULT_POINT("before_offset_commit");
	consumer_commit(ingest->consumer, items, count);
	FAULT_POINT("after_offset_sent");
}

/* Includes offsets that were sent and are not confirmed yet, because the answer may arrive after
 * the partition is gone. */
static bool is_due_and_stored(const struct partition *partition)
{
	return partition->due && partition_is_ours(partition) && partition->stored >= 0 &&
	       partition->stored > partition->group;
}

void offsets_commit_due(struct ingest *ingest, int timeout_ms)
{
	struct partition_offset *items;
	struct err err = ERR_INIT;
	size_t count = 0;

	if ((ingest->holds & HOLD_HALTED) != 0)
		return;
	items = partitions_select(&ingest->partitions, is_due_and_stored, &count);
	for (size_t i = 0; i < count; i++)
		items[i].offset =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition)
				->stored;
	FAULT_POINT("before_last_offset_commit");
	if (count > 0 && broker_commit_offsets(consumer_handle(ingest->consumer), items, count,
				 timeout_ms, &err) < 0)
		log_warn("offsets_not_committed", LOG_STR("error", err.text),
			LOG_STR("next",
				"the database has stored them: no message is stored twice"));
}

void offsets_commit_all(struct ingest *ingest, int timeout_ms)
{
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->due = true;
	offsets_commit_due(ingest, timeout_ms);
}

void offsets_not_committed(void *arg, const struct partition_offset *item)
{
	struct ingest *ingest = arg;
	struct partition *partition =
		partitions_find(&ingest->partitions, item->topic, item->partition);

	if (partition != NULL && partition->committed == item->offset)
		partition->committed = -1;
}

/* --- Lag ---------------------------------------------------------------------------------------- */

static void partition_label(const struct partition *partition, char out[16])
{
	(void)snprintf(out, 16, "%d", (int)partition->partition);
}

static void show_lag(struct ingest *ingest, const struct partition *partition, int64_t end)
{
	char label[16];

	if (end < 0)
		return;
	partition_label(partition, label);
	metric_set(metrics_get(ingest->options.metrics, METER_KAFKA_LAG, partition->topic, label),
		end > partition->next ? (double)(end - partition->next) : 0);
}

static bool is_standing(const struct partition *partition)
{
	return partition->state == PARTITION_READING && !partition->flowing;
}

/* A paused partition is not fetched, so no fetch response shows the end of its log. */
static void show_standing(struct ingest *ingest)
{
	const struct log_query query = { BROKER_LOG_END, ENDS_WAIT_MS };
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (now_ms < ingest->ends_at_ms || !atomic_load(&ingest->options.health->broker_ok))
		return;
	items = partitions_select(&ingest->partitions, is_standing, &count);
	if (count == 0)
		return;
	ingest->ends_at_ms = now_ms + ENDS_EVERY_MS;
	if (broker_query_log(consumer_handle(ingest->consumer), query, items, count, NULL) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (items[i].error == NULL)
			show_lag(ingest,
				partitions_find(
					&ingest->partitions, items[i].topic, items[i].partition),
				items[i].offset);
	}
}

void offsets_show_lag(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (partition->state == PARTITION_READING && partition->flowing)
			show_lag(ingest, partition,
				broker_query_high(consumer_handle(ingest->consumer),
					partition->topic, partition->partition));
	}
	show_standing(ingest);
}

void offsets_drop_lag(struct ingest *ingest, const struct partition *partition)
{
	char label[16];

	partition_label(partition, label);
	metrics_drop(ingest->options.metrics, METER_KAFKA_LAG, partition->topic, label);
}
