/*
 * Implements flow.h, flow_step(), flow_recheck() and flow_recheck_stopped(). librdkafka never reads a partition from an offset of its own
 * choice: a partition is paused from its assignment on, and it flows only after a successful seek to the offset that
 * start_offset.c decided.
 */
#include "ingest/partitions/flow.h"

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/partitions/steps.h"

#define SEEK_RETRY_MS  100
#define SEEK_LATE_MS   10000 /* before a seek that fails is logged */
#define SEEK_LOG_MS    60000
#define PAUSES_LATE_MS 10000
#define STOPPED_MS     200

bool flow_is_halted(const struct ingest *ingest)
{
	return (ingest->stops & STOP_HALTED) != 0;
}

static void forget_seeks(struct partition *partition)
{
	partition->seek_fails_since_ms = 0;
	partition->seek_fails_logged_ms = 0;
}

/* A paused partition is not fetched, so no failed fetch would reveal that its topic was recreated. Therefore the id of its
 * topic and its last record are verified before it flows again. */
static void note_stopped(struct partition *partition)
{
	partition_verify_last(partition);
	if (partition->stopped_ms == 0)
		partition->stopped_ms = clock_now_ms();
}

void flow_stop_all(struct ingest *ingest, enum stop reason)
{
	size_t count = 0;
	const struct partition_offset *flowing =
		partitions_select(&ingest->partitions, partition_is_flowing, &count);

	ingest->stops |= (unsigned)reason;
	consumer_pause(ingest->consumer, flowing, count);
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (partition->flowing)
			note_stopped(partition);
		partition->flowing = false;
		forget_seeks(partition);
	}
}

void flow_go_on(struct ingest *ingest, enum stop reason)
{
	ingest->stops &= ~(unsigned)reason;
}

void ingest_fenced(struct ingest *ingest)
{
	if (!flow_is_halted(ingest))
		supervision_report_fenced(ingest->options.supervision);
	flow_stop_all(ingest, STOP_HALTED);
}

void ingest_renamed(struct ingest *ingest)
{
	if (!flow_is_halted(ingest))
		supervision_report_renamed(ingest->options.supervision);
	flow_stop_all(ingest, STOP_HALTED);
}

void ingest_rejoins(struct ingest *ingest)
{
	atomic_store(&ingest->options.health->join_after_ms, clock_now_ms() + CONSUMER_PAUSE_MS);
	if (!flow_is_halted(ingest))
		supervision_report_rejoins(ingest->options.supervision);
	flow_stop_all(ingest, STOP_HALTED);
}

void ingest_fault(struct ingest *ingest, const struct err *err)
{
	supervision_report_fault(ingest->options.supervision, err);
	flow_stop_all(ingest, STOP_HALTED);
}

void flow_pause(struct ingest *ingest, struct partition *partition)
{
	const struct partition_offset one = { partition->topic, partition->partition, -1, NULL };

	if (!partition->flowing)
		return;
	consumer_pause(ingest->consumer, &one, 1);
	partition->flowing = false;
}

void flow_stop(struct ingest *ingest, struct partition *partition, enum partition_state state)
{
	flow_pause(ingest, partition);
	partition->state = state;
	partition->query = 0;
	partition->end_query = 0;
	partition->retry_at_ms = 0;
	forget_seeks(partition);
	ingest->round.changed = true;
}

void flow_recheck(struct ingest *ingest, struct partition *partition)
{
	if (partition->state != PARTITION_READING)
		return;
	flow_stop(ingest, partition, PARTITION_TAKEN);
	partition_verify_last(partition);
	partition->start.from_next = true;
}

/* A topic that an operator has paused with --ingest is not read. Its partitions stay assigned. As in flow_stop_all(), the last
 * record of a partition is verified when it flows again. */
static void stop_paused_topics(struct ingest *ingest)
{
	struct admission *admission = ingest->options.admission;

	ingest->topics_stopped = admission_stops_reading(admission);
	for (size_t i = 0; ingest->topics_stopped && i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (!partition->flowing || admission_reads(admission, partition->topic))
			continue;
		flow_pause(ingest, partition);
		note_stopped(partition);
	}
}

/* A topic could be paused with --ingest: nothing flows until dispatch has read the pauses once. It tries again until the
 * database answers, without which nothing can be stored either. */
static bool knows_pauses(struct ingest *ingest, int64_t now_ms)
{
	if (ingest->pauses_known)
		return true;
	ingest->pauses_known = admission_knows_pauses(ingest->options.admission);
	if (ingest->pauses_known || ingest->pauses_awaited_ms < 0)
		return ingest->pauses_known;
	if (ingest->pauses_awaited_ms == 0)
		ingest->pauses_awaited_ms = now_ms;
	if (now_ms - ingest->pauses_awaited_ms < PAUSES_LATE_MS)
		return false;
	ingest->pauses_awaited_ms = -1;
	log_warn("pauses_unknown",
		LOG_STR("why", "the table inbox_pauses could not be read since the start"),
		LOG_STR("next", "no topic is read until it is known which are paused"));
	return false;
}

static bool is_read(const struct ingest *ingest, const struct partition *partition)
{
	return !ingest->topics_stopped ||
	       admission_reads(ingest->options.admission, partition->topic);
}

/* The first seeks may fail: if a commit is not answered, or another partition is being stopped, librdkafka starts the new ones
 * later. */
static void note_seek(struct partition *partition, const char *error, int64_t now_ms)
{
	const bool logged = partition->seek_fails_logged_ms != 0;

	if (error == NULL) {
		forget_seeks(partition);
		return;
	}
	if (partition->seek_fails_since_ms == 0)
		partition->seek_fails_since_ms = now_ms;
	if (now_ms - (logged ? partition->seek_fails_logged_ms : partition->seek_fails_since_ms) <
		(logged ? SEEK_LOG_MS : SEEK_LATE_MS))
		return;
	partition->seek_fails_logged_ms = now_ms;
	log_warn("partition_not_started", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_STR("error", error),
		LOG_INT("for_ms", now_ms - partition->seek_fails_since_ms),
		LOG_STR("next", "inboxd repeats the seek; if the brokers answer and this line is "
				"repeated, start this instance again"));
}

static bool may_flow(const struct ingest *ingest, const struct partition *partition, int64_t now_ms)
{
	return partition->state == PARTITION_READING && !partition->flowing &&
	       now_ms >= partition->retry_at_ms && is_read(ingest, partition);
}

/* A stop that is shorter is not long enough to delete a topic, to create it and to fill it. While a seek fails, the partition
 * is not stopped: librdkafka has not started it yet. */
static bool was_stopped(const struct partition *partition, int64_t now_ms)
{
	return partition->stopped_ms != 0 && partition->seek_fails_since_ms == 0 &&
	       now_ms - partition->stopped_ms >= STOPPED_MS;
}

void flow_recheck_stopped(struct ingest *ingest)
{
	const int64_t now_ms = clock_now_ms();

	if (!ingest->pauses_known || ingest->stops != 0)
		return;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (may_flow(ingest, partition, now_ms) && was_stopped(partition, now_ms))
			flow_recheck(ingest, partition);
	}
}

/* --- The step ---------------------------------------------------------------------------------- */

void flow_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (!knows_pauses(ingest, now_ms))
		return;
	stop_paused_topics(ingest);
	if (ingest->stops != 0)
		return;
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = may_flow(ingest, partition, now_ms);
		if (!partition->due && now_ms >= partition->retry_at_ms)
			forget_seeks(partition);
	}
	items = partitions_select(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
		items[i].offset = partition_seek_offset(
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition));
	consumer_flow(ingest->consumer, items, count);
	for (size_t i = 0; i < count; i++) {
		struct partition *partition =
			partitions_find(&ingest->partitions, items[i].topic, items[i].partition);

		partition->flowing = items[i].error == NULL;
		if (partition->flowing)
			partition->stopped_ms = 0;
		partition->retry_at_ms = partition->flowing ? 0 : now_ms + SEEK_RETRY_MS;
		note_seek(partition, items[i].error, now_ms);
	}
}
