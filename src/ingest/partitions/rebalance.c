/*
 * Follows the rebalances of Kafka: what happens when partitions are assigned, and where they are given up. Two
 * authorities name the owner of a partition: Kafka assigns it to a member, and the row in inbox_offsets names an
 * instance and an epoch. Only the row counts for the database. When both disagree for the duration of a lease, this
 * instance ends and the process registers as a new one.
 *
 * A revoked partition is given up in this order: commit its offsets, release its row, drop its records and tell
 * dispatch. If the group has already taken it away, the first two are useless, and the row stays ours.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/ownership.h"
#include "ingest/partitions/steps.h"
#include "store/schema/binding.h"

#define REVOKE_COMMIT_MS 2000
#define CLUSTER_ID_MS    1000
#define RETRY_MS         1000

/* An adopted partition is given up first, so that dispatch drops its messages and the acquisition
 * finds them like those of another owner. */
void rebalance_assigned(struct ingest *ingest, const struct partition_offset *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct partition *partition =
			ownership_partition(ingest, items[i].topic, items[i].partition);

		if (partition == NULL)
			continue;
		if (partition_is_adopted(partition))
			ownership_let_go(ingest, partition);
		ownership_forget(ingest, partition);
		partition_reset(partition, PARTITION_ASSIGNED);
	}
	atomic_store(&ingest->options.health->group_joined, true);
	log_info("partitions_assigned", LOG_INT("count", (int64_t)count),
		LOG_INT("now",
			(int64_t)partitions_number(&ingest->partitions, partition_is_assigned)));
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

	if (ingest->outage.down || flow_is_halted(ingest))
		return;
	refs = partitions_refs(&ingest->partitions, is_to_release, &count);
	FAULT_POINT("before_release");
	if (count > 0 && watermarks_release(ingest->writer, refs, count, &err) < 0)
		db_outage_begin(ingest, &err);
}

void rebalance_revoked(
	struct ingest *ingest, const struct partition_offset *items, size_t count, bool lost)
{
	partitions_mark_none(&ingest->partitions);
	for (size_t i = 0; i < count; i++) {
		struct partition *partition =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition);

		if (partition != NULL)
			partition->due = true;
	}
	if (!lost) {
		/* the final commit for all partitions has already happened or failed */
		if (!ingest->round.closing)
			commit_offsets_due(ingest, REVOKE_COMMIT_MS);
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
	log_info("partitions_revoked", LOG_INT("count", (int64_t)count), LOG_INT("lost", lost));
}

static bool bind_schema(struct ingest *ingest)
{
	CLEANUP(freep) char *cluster = NULL;
	struct err err = ERR_INIT;

	if (ingest->binding.done)
		return true;
	if (clock_now_ms() < ingest->binding.retry_at_ms)
		return false;
	cluster = broker_query_cluster_id(consumer_handle(ingest->consumer), CLUSTER_ID_MS);
	ingest->binding.retry_at_ms = clock_now_ms() + RETRY_MS;
	if (cluster == NULL)
		return false;
	if (schema_bind(ingest->db, cluster, consumer_group(ingest->consumer), &err) < 0) {
		db_outage_begin(ingest, &err);
		return false;
	}
	ingest->binding.done = true;
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

bool rebalance_step(struct ingest *ingest)
{
	if (ingest->outage.down || flow_is_halted(ingest) || !bind_schema(ingest))
		return false;
	if (is_disputed(ingest)) {
		ingest_fenced(ingest);
		return false;
	}
	return true;
}
