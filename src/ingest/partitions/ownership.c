/*
 * Implements ownership.h.
 */
#include "ingest/partitions/ownership.h"

#include "base/clock.h"
#include "base/log.h"
#include "ingest/collect.h"
#include "ingest/handover_queue.h"
#include "ingest/partitions/offsets.h"

static void pause_one(struct ingest *ingest, struct partition *partition)
{
	const struct partition_offset one = { partition->topic, partition->partition, -1, NULL };

	if (!partition->flowing)
		return;
	consumer_pause(ingest->consumer, &one, 1);
	partition->flowing = false;
}

void ownership_forget(struct ingest *ingest, struct partition *partition)
{
	batch_drop_partition(&ingest->batch, partition->topic, partition->partition);
	partition->touched = false;
}

void ownership_stop(struct ingest *ingest, struct partition *partition, enum partition_state state)
{
	pause_one(ingest, partition);
	partition->state = state;
	partition->retry_at_ms = 0;
	ingest->changed = true;
}

static void let_go(struct ingest *ingest, struct partition *partition, enum partition_state state)
{
	bool told = partition_is_ours(partition);

	ownership_forget(ingest, partition);
	offsets_drop_lag(ingest, partition);
	partition_reset(partition, state);
	if (!told)
		return;
	admission_revoke(ingest->options.admission, partition->index);
	handover_queue_revoke(ingest, partition->index);
}

/*
 * Kafka has taken the partition away because it received no heartbeat of this member. The row still
 * names this instance, so no other instance claims or delivers its messages. They are processed
 * here without Kafka: the partition counts as adopted (rule R6). A later owner holds back the keys
 * of the rows that this instance has claimed (rule R12).
 */
void ownership_keep(struct ingest *ingest, struct partition *partition)
{
	ownership_forget(ingest, partition);
	offsets_drop_lag(ingest, partition);
	partition_keep(partition);
}

void ownership_let_go(struct ingest *ingest, struct partition *partition)
{
	let_go(ingest, partition, PARTITION_ABSENT);
}

void ownership_lost(struct ingest *ingest, struct partition *partition)
{
	if (partition_is_adopted(partition)) {
		ownership_let_go(ingest, partition);
		return;
	}
	log_warn("partition_lost", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition),
		LOG_STR("next", "another instance has taken it; waiting until Kafka revokes it"));
	pause_one(ingest, partition);
	let_go(ingest, partition, PARTITION_FOREIGN);
	partition->retry_at_ms = clock_now_ms() + ingest->options.config->worker.lease;
}

void ownership_moved(
	struct ingest *ingest, struct partition *partition, const struct watermark *row)
{
	if (partition_is_adopted(partition)) { /* it is not read */
		partition_note_row(partition, row);
		return;
	}
	log_warn("watermark_moved", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_INT("from", partition->table_next),
		LOG_INT("to", row->next_offset), LOG_STR("next", "reading continues from there"));
	ownership_forget(ingest, partition);
	ownership_stop(ingest, partition, PARTITION_TAKEN);
	partition_note_row(partition, row);
	partition->verify_offset = -1;
	partition->from_next = false;
	partition->watermark_only = true;
}

static int prepare(struct ingest *ingest, struct partition *partition, struct err *err)
{
	int index = admission_partition(
		ingest->options.admission, partition->topic, partition->partition, err);

	if (index < 0)
		return index;
	partition->index = (size_t)index;
	collect_prepare(ingest, partition);
	return 0;
}

struct partition *ownership_partition(struct ingest *ingest, const char *topic, int32_t number)
{
	struct err err = ERR_INIT;
	bool made = false;
	struct partition *partition = partitions_get(&ingest->partitions, topic, number, &made);

	if (partition == NULL)
		(void)err_memory(&err);
	if (partition == NULL || (made && prepare(ingest, partition, &err) < 0)) {
		ingest_fault(ingest, &err);
		return NULL;
	}
	return partition;
}
