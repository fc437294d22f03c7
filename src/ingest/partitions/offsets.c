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

static rd_kafka_topic_partition_list_t *uncommitted(struct ingest *ingest)
{
	rd_kafka_topic_partition_list_t *list =
		partitions_list(&ingest->partitions, is_uncommitted);

	for (int i = 0; list != NULL && i < list->cnt; i++) {
		struct partition *partition = partitions_find(
			&ingest->partitions, list->elems[i].topic, list->elems[i].partition);

		list->elems[i].offset = partition->stored;
		partition->committed = partition->stored;
	}
	return list;
}

/* The group's offset may be lower than the watermark by what was read in COMMIT_EVERY_MS. After a
 * crash these records are read again as duplicates (ADR 1). */
void offsets_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	rd_kafka_topic_partition_list_t *list;

	if (now_ms < ingest->commit_at_ms || (ingest->holds & HOLD_HALTED) != 0)
		return;
	ingest->commit_at_ms = now_ms + COMMIT_EVERY_MS;
	list = uncommitted(ingest);
	if (list == NULL)
		return;
	FAULT_POINT("before_offset_commit");
	consumer_commit(ingest->consumer, list);
	FAULT_POINT("after_offset_sent");
	rd_kafka_topic_partition_list_destroy(list);
}

/* Includes offsets that were sent and are not confirmed yet, because the answer may arrive after
 * the partition is gone. */
static rd_kafka_topic_partition_list_t *stored_of(
	struct ingest *ingest, const rd_kafka_topic_partition_list_t *only)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(only->cnt);

	for (int i = 0; i < only->cnt; i++) {
		const struct partition *partition = partitions_find(
			&ingest->partitions, only->elems[i].topic, only->elems[i].partition);

		if (partition != NULL && partition_is_ours(partition) && partition->stored >= 0 &&
			partition->stored > partition->group)
			rd_kafka_topic_partition_list_add(
				list, partition->topic, partition->partition)
				->offset = partition->stored;
	}
	return list;
}

void offsets_commit_some(
	struct ingest *ingest, const rd_kafka_topic_partition_list_t *only, int timeout_ms)
{
	rd_kafka_topic_partition_list_t *all = NULL;
	rd_kafka_topic_partition_list_t *list;
	struct err err = ERR_INIT;

	if ((ingest->holds & HOLD_HALTED) != 0)
		return;
	if (only == NULL)
		all = partitions_list(&ingest->partitions, partition_is_ours);
	if (only == NULL && all == NULL)
		return;
	list = stored_of(ingest, only == NULL ? all : only);
	FAULT_POINT("before_last_offset_commit");
	if (list->cnt > 0 && broker_commit_offsets(
				     consumer_handle(ingest->consumer), list, timeout_ms, &err) < 0)
		log_warn("offsets_not_committed", LOG_STR("error", err.text),
			LOG_STR("next",
				"the database has stored them: no message is stored twice"));
	rd_kafka_topic_partition_list_destroy(list);
	if (all != NULL)
		rd_kafka_topic_partition_list_destroy(all);
}

void offsets_not_committed(void *arg, const rd_kafka_topic_partition_t *place)
{
	struct ingest *ingest = arg;
	struct partition *partition =
		partitions_find(&ingest->partitions, place->topic, place->partition);

	if (partition != NULL && partition->committed == place->offset)
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
	int64_t now_ms = clock_now_ms();
	rd_kafka_topic_partition_list_t *list;

	if (now_ms < ingest->ends_at_ms || !atomic_load(&ingest->options.health->broker_ok))
		return;
	list = partitions_list(&ingest->partitions, is_standing);
	if (list == NULL)
		return;
	ingest->ends_at_ms = now_ms + ENDS_EVERY_MS;
	if (broker_query_ends(consumer_handle(ingest->consumer), list, ENDS_WAIT_MS, NULL) == 0) {
		for (int i = 0; i < list->cnt; i++) {
			const rd_kafka_topic_partition_t *place = &list->elems[i];

			if (place->err == RD_KAFKA_RESP_ERR_NO_ERROR)
				show_lag(ingest,
					partitions_find(&ingest->partitions, place->topic,
						place->partition),
					place->offset);
		}
	}
	rd_kafka_topic_partition_list_destroy(list);
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
