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
#include <string.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/partitions/db_outage.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/ownership.h"
#include "ingest/partitions/start_offset_policy.h"
#include "ingest/partitions/steps.h"
#include "store/schema/binding.h"

#define REVOKE_COMMIT_MS 2000
#define CLUSTER_ID_MS    1000
#define TOPICS_MS        3000
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

/* --- The beginning of the group ----------------------------------------------------------------- */

/* Grows while the topics of the brokers are looked through. */
struct beginning {
	const struct strings *entries;
	struct begun_topic *topics; /* their names are owned */
	size_t count;
};

static int add_topic(void *arg, const char *topic, int partitions, struct err *err)
{
	struct beginning *beginning = arg;
	const struct strings *entries = beginning->entries;
	struct begun_topic *more;
	char *name;
	size_t i = 0;

	while (i < entries->count && !topic_fits(entries->items[i], topic))
		i++;
	if (i == entries->count || partitions <= 0)
		return 0;
	more = realloc(beginning->topics, (beginning->count + 1) * sizeof(*more));
	if (more == NULL)
		return err_memory(err);
	beginning->topics = more;
	name = strdup(topic);
	if (name == NULL)
		return err_memory(err);
	more[beginning->count++] = (struct begun_topic){ entries->items[i], name, partitions };
	return 0;
}

static void beginning_fini(struct beginning *beginning)
{
	for (size_t i = 0; i < beginning->count; i++)
		free(beginning->topics[i].topic);
	free(beginning->topics);
}

/*
 * With `auto.offset.reset: latest` the records are skipped that were there when the group began. A partition that is
 * added later, or a topic that appears later, is read from its first record: producers may write to it before a sidecar
 * has heard of it. Kafka does not tell when a partition was made, so the first use of an entry of kafka.topics notes
 * which ones exist. With `earliest` nothing depends on it.
 */
static int begin_group(struct ingest *ingest, struct err *err)
{
	const struct config *config = ingest->options.config;
	CLEANUP(beginning_fini) struct beginning beginning = { .entries = &config->kafka_topics };
	struct begun_topics begun = { .entries = (const char *const *)config->kafka_topics.items,
		.entry_count = config->kafka_topics.count };
	int r;

	if (start_offset_policy(consumer_conf_value(config, "auto.offset.reset", "")) ==
		RESET_EARLIEST)
		return 0;
	r = broker_query_topics(
		consumer_handle(ingest->consumer), TOPICS_MS, add_topic, &beginning, err);
	begun.topics = beginning.topics;
	begun.count = beginning.count;
	return r == 0 ? watermarks_begin(ingest->writer, &begun, err) : r;
}

static bool bind_schema(struct ingest *ingest)
{
	CLEANUP(freep) char *cluster = NULL;
	struct err err = ERR_INIT;
	int r;

	if (ingest->binding.done)
		return true;
	if (clock_now_ms() < ingest->binding.retry_at_ms)
		return false;
	cluster = broker_query_cluster_id(consumer_handle(ingest->consumer), CLUSTER_ID_MS);
	ingest->binding.retry_at_ms = clock_now_ms() + RETRY_MS;
	if (cluster == NULL)
		return false;
	r = schema_bind(ingest->db, cluster, consumer_group(ingest->consumer), &err);
	if (r == 0)
		r = begin_group(ingest, &err);
	if (r == FAULT_KAFKA) /* as without the cluster's id: tried again */
		return false;
	if (r < 0)
		db_outage_begin(ingest, &err);
	ingest->binding.done = r == 0;
	return ingest->binding.done;
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
