/*
 * Implements assignment.h. Two authorities name the owner of a partition: Kafka assigns it to a
 * member, and the row in inbox_offsets names an instance and an epoch. Only the row counts for the
 * database. When both disagree for the duration of a lease, this instance ends and the process
 * registers as a new one.
 */
#include "ingest/partitions/assignment.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/partitions/acquire.h"
#include "ingest/partitions/adoption.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/offsets.h"
#include "ingest/partitions/ownership.h"
#include "ingest/partitions/start_offset.h"
#include "ingest/store_batch.h"
#include "store/schema/binding.h"

#define REVOKE_COMMIT_MS 2000
#define CLUSTER_ID_MS    1000
#define RETRY_MS         1000
#define SEEK_RETRY_MS    100

/* --- Events of Kafka --------------------------------------------------------------------------- */

/* An adopted partition is given up first, so that dispatch drops its messages and the acquisition
 * finds them like those of another owner. */
static void assigned_one(struct ingest *ingest, const struct partition_offset *item)
{
	struct partition *partition = ownership_partition(ingest, item->topic, item->partition);

	if (partition == NULL)
		return;
	if (partition_is_adopted(partition))
		ownership_let_go(ingest, partition);
	ownership_forget(ingest, partition);
	partition_reset(partition, PARTITION_ASSIGNED);
}

void assignment_assigned(void *arg, const struct partition_offset *items, size_t count)
{
	struct ingest *ingest = arg;

	store_batch_finish(ingest);
	for (size_t i = 0; i < count; i++)
		assigned_one(ingest, &items[i]);
	atomic_store(&ingest->options.health->group_joined, true);
	/* a broker was reachable just now, so the doubt of brokers.c can be resolved */
	ingest->observe_at_ms = 0;
	ingest->changed = true;
	log_info("partitions_assigned", LOG_INT("count", (int64_t)count),
		LOG_INT("now",
			(int64_t)partitions_number(&ingest->partitions, partition_is_assigned)));
}

static struct partition *find(struct ingest *ingest, const struct partition_offset *item)
{
	return partitions_find(&ingest->partitions, item->topic, item->partition);
}

static bool is_to_release(const struct partition *partition)
{
	return partition->due &&
	       (partition_is_ours(partition) || partition_is_being_taken(partition));
}

/* Best effort: the next owner takes the row whatever it contains (rule R6). */
static void release_due(struct ingest *ingest)
{
	const struct partition_ref *refs;
	struct err err = ERR_INIT;
	size_t count = 0;

	if (ingest->outage.down || (ingest->holds & HOLD_HALTED) != 0)
		return;
	refs = partitions_refs(&ingest->partitions, is_to_release, &count);
	FAULT_POINT("before_release");
	if (count > 0 && watermarks_release(ingest->writer, refs, count, &err) < 0)
		db_outage_begin(ingest, &err);
}

void assignment_revoked(void *arg, const struct partition_offset *items, size_t count, bool lost)
{
	struct ingest *ingest = arg;

	store_batch_finish(ingest);
	partitions_mark_none(&ingest->partitions);
	for (size_t i = 0; i < count; i++) {
		if (find(ingest, &items[i]) != NULL)
			find(ingest, &items[i])->due = true;
	}
	if (!lost) {
		/* the final commit for all partitions has already happened or failed */
		if (!ingest->closing)
			offsets_commit_due(ingest, REVOKE_COMMIT_MS);
		release_due(ingest);
		FAULT_POINT("after_release");
	} else {
		atomic_store(&ingest->options.health->group_joined, false);
	}
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (partition->due && lost && partition_is_ours(partition))
			ownership_keep(ingest, partition);
		else if (partition->due)
			ownership_let_go(ingest, partition);
	}
	ingest->changed = true;
	log_info("partitions_revoked", LOG_INT("count", (int64_t)count), LOG_INT("lost", lost));
}

/* --- The row ----------------------------------------------------------------------------------- */

static bool bind_schema(struct ingest *ingest)
{
	CLEANUP(freep) char *cluster = NULL;
	struct err err = ERR_INIT;

	if (ingest->bound)
		return true;
	if (clock_now_ms() < ingest->bind_at_ms)
		return false;
	cluster = broker_query_cluster_id(consumer_handle(ingest->consumer), CLUSTER_ID_MS);
	ingest->bind_at_ms = clock_now_ms() + RETRY_MS;
	if (cluster == NULL)
		return false;
	if (schema_bind(ingest->db, cluster, consumer_group(ingest->consumer), &err) < 0) {
		db_outage_begin(ingest, &err);
		return false;
	}
	ingest->bound = true;
	return true;
}

/* True when Kafka still assigns a partition whose row names another instance after a whole lease.
 * One of both is out of date. The instance then ends: it leaves the group, joins again and acquires
 * what Kafka assigns. */
static bool is_disputed(const struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (partition->state == PARTITION_FOREIGN && now_ms >= partition->retry_at_ms)
			return true;
	}
	return false;
}

void assignment_step(struct ingest *ingest)
{
	if (ingest->outage.down || (ingest->holds & HOLD_HALTED) != 0 || !bind_schema(ingest))
		return;
	if (is_disputed(ingest)) {
		ingest_fenced(ingest);
		return;
	}
	acquire_step(ingest);
	if (!ingest->outage.down)
		start_offset_step(ingest);
	if (!ingest->outage.down)
		adoption_step(ingest);
}

/* --- The flow ---------------------------------------------------------------------------------- */

static bool is_ready(const struct partition *partition, int64_t now_ms)
{
	return partition->state == PARTITION_READING && !partition->flowing &&
	       now_ms >= partition->retry_at_ms;
}

void assignment_flow(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (ingest->holds != 0)
		return;
	for (size_t i = 0; i < ingest->partitions.count; i++)
		ingest->partitions.items[i]->due = is_ready(ingest->partitions.items[i], now_ms);
	items = partitions_select(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
		items[i].offset = partition_seek_offset(find(ingest, &items[i]));
	consumer_flow(ingest->consumer, items, count);
	for (size_t i = 0; i < count; i++) {
		struct partition *partition = find(ingest, &items[i]);

		partition->flowing = items[i].error == NULL;
		partition->retry_at_ms = partition->flowing ? 0 : now_ms + SEEK_RETRY_MS;
	}
}

static void recheck(struct ingest *ingest, struct partition *partition)
{
	if (partition->state != PARTITION_READING)
		return;
	ownership_stop(ingest, partition, PARTITION_TAKEN);
	partition_verify_last(partition);
	partition->from_next = true;
}

void assignment_recheck_all(struct ingest *ingest)
{
	store_batch_finish(ingest);
	for (size_t i = 0; i < ingest->partitions.count; i++)
		recheck(ingest, ingest->partitions.items[i]);
}

void assignment_recheck(void *arg, const char *topic, int32_t number)
{
	struct ingest *ingest = arg;
	struct partition *partition = partitions_find(&ingest->partitions, topic, number);

	store_batch_finish(ingest);
	if (partition != NULL)
		recheck(ingest, partition);
}
