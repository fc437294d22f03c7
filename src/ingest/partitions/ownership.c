/*
 * Implements ownership.h.
 */
#include "ingest/partitions/ownership.h"

#include <stdio.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/handover_queue.h"
#include "ingest/partitions/audience.h"
#include "ingest/partitions/flow.h"
#include "report/meters.h"

void ownership_forget(struct ingest *ingest, struct partition *partition)
{
	batch_drop_partition(&ingest->storing.batch, partition->topic, partition->partition);
	partition->update.touched = false;
}

static void drop_lag(struct ingest *ingest, const struct partition *partition)
{
	char label[16];

	(void)snprintf(label, sizeof(label), "%d", (int)partition->partition);
	metrics_drop(ingest->options.metrics, METER_KAFKA_LAG, partition->topic, label);
}

static void let_go(struct ingest *ingest, struct partition *partition, enum partition_state state)
{
	bool told = partition_is_ours(partition);

	ownership_forget(ingest, partition);
	drop_lag(ingest, partition);
	partition_reset(partition, state);
	if (!told)
		return;
	for (size_t i = 0; i < partition->audience.count; i++)
		admission_revoke(ingest->options.admission, partition->audience.members[i].stream);
	handover_queue_revoke(ingest, &partition->audience);
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
	drop_lag(ingest, partition);
	partition_keep(partition);
}

void ownership_let_go(struct ingest *ingest, struct partition *partition)
{
	let_go(ingest, partition, PARTITION_ABSENT);
}

void ownership_take_again(struct ingest *ingest, struct partition *partition)
{
	if (partition_is_adopted(partition)) {
		ownership_let_go(ingest, partition);
		return;
	}
	flow_pause(ingest, partition);
	let_go(ingest, partition, PARTITION_ASSIGNED);
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
	flow_pause(ingest, partition);
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
		LOG_INT("partition", partition->partition), LOG_INT("from", partition->table.next),
		LOG_INT("to", row->next_offset), LOG_STR("next", "reading continues from there"));
	ownership_forget(ingest, partition);
	flow_stop(ingest, partition, PARTITION_TAKEN);
	partition_note_row(partition, row);
	partition->log = row->log;
	partition->verify.offset = -1;
	partition->start.from_next = false;
	partition->start.watermark_only = true;
}

/* Looks up the identity rules and the counters of a new partition. The counters of its topic are created with the
 * value 0: a counter that first appears with the value 1 shows no increase, so that an alert on its rate would miss
 * the first event. */
static int prepare(struct ingest *ingest, struct partition *partition, struct err *err)
{
	static const enum meter of_topics[] = { METER_DUPLICATES, METER_CONFLICTS,
		METER_TOPIC_RECREATED, METER_OFFSET_GAPS };
	const struct config *config = ingest->options.config;
	struct metrics *metrics = ingest->options.metrics;
	size_t rules = (size_t)(config_topic_rules(config, partition->topic) - config->topics);
	int r = audience_of(ingest, partition, err);

	if (r < 0)
		return r;
	partition->rules = ingest->collector.rules[rules];
	partition->received = metrics_get(metrics, METER_MESSAGES_RECEIVED, partition->topic, NULL);
	partition->skipped = metrics_get(metrics, METER_SKIPPED, partition->topic, NULL);
	if (config->consumer_count > 0)
		partition->unwanted = metrics_get(metrics, METER_UNWANTED, partition->topic, NULL);
	for (size_t i = 0; i < sizeof(of_topics) / sizeof(of_topics[0]); i++)
		(void)metrics_get(metrics, of_topics[i], partition->topic, NULL);
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
