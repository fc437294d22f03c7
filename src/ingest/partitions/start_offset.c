/*
 * Finds the start offset of acquired partitions: asks for the ends of the log and for the group's offsets, decides with
 * start_offset_policy.h, and logs recreated topics and gaps. An offset that Kafka cannot confirm is never used: the
 * partition waits.
 */
#include "ingest/partitions/steps.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/start_offset_policy.h"
#include "report/meters.h"

#define RETRY_MS 1000

/* The answers of the brokers about the due partitions: three arrays in the same order. */
struct answers {
	struct partition_offset *low;
	struct partition_offset *high;
	struct partition_offset *group;
	size_t count;
};

static int ask(struct ingest *ingest, const struct answers *answers, struct err *err)
{
	const struct log_query begin = { BROKER_LOG_BEGIN, BROKER_ANSWER_MS };
	const struct log_query end = { BROKER_LOG_END, BROKER_ANSWER_MS };
	struct rd_kafka_s *kafka = consumer_handle(ingest->consumer);
	int r = broker_query_committed(kafka, answers->group, answers->count, err);

	if (r == 0)
		r = broker_query_log(kafka, begin, answers->low, answers->count, err);
	return r == 0 ? broker_query_log(kafka, end, answers->high, answers->count, err) : r;
}

static void log_retry(struct ingest *ingest, const char *error)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&ingest->start_log_limit, clock_now_ms(), &held))
		log_warn("start_unknown", LOG_STR("error", error), LOG_INT("retry_in_ms", RETRY_MS),
			LOG_INT("held_back", held));
}

/* --- Logging the decision ---------------------------------------------------------------------- */

static void log_recreated(
	struct ingest *ingest, const struct partition *partition, int64_t old, int64_t start)
{
	log_warn("topic_recreated", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_INT("old_offset", old),
		LOG_INT("new_offset", start),
		LOG_STR("next",
			"reading from the earliest record; known ids are not stored twice"));
	metric_add(
		metrics_get(ingest->options.metrics, METER_TOPIC_RECREATED, partition->topic, NULL),
		1);
}

static void log_gap(struct ingest *ingest, const struct partition *partition,
	const struct start_offset *position)
{
	log_error("offset_gap", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_INT("from", position->gap_from),
		LOG_INT("to", position->start),
		LOG_INT("count", position->start - position->gap_from),
		LOG_STR("next", "Kafka deleted these records before they were read; reading from "
				"the earliest remaining record"));
	metric_add(
		metrics_get(ingest->options.metrics, METER_OFFSET_GAPS, partition->topic, NULL), 1);
}

/* The offset that an operator asked for may be outside the log. */
static void log_sought(const struct partition *partition, const struct start_offset_facts *facts,
	const struct start_offset *position)
{
	bool there = position->start == facts->watermark;
	enum log_level level = there ? LOG_INFO : LOG_WARN;

	log_at(level, "seek_applied", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition),
		LOG_INT("asked_offset", facts->watermark), LOG_INT("start_offset", position->start),
		LOG_INT("log_begins", facts->low), LOG_INT("log_ends", facts->high),
		LOG_STR("next", there ? "reading continues there"
				      : "the log does not contain this offset; reading from its "
					"earliest record"));
}

/* The watermark of a seek is the offset that an operator asked for, not one that was read. Outside
 * the log it proves neither a recreated topic nor records that were deleted unread. */
static void log_decision(struct ingest *ingest, const struct partition *partition,
	const struct start_offset_facts *facts, const struct start_offset *position)
{
	int64_t old = facts->watermark >= 0 ? facts->watermark : facts->group;

	if (partition->table.forced && partition->start.watermark_only && facts->watermark >= 0)
		log_sought(partition, facts, position);
	else if (position->recreated)
		log_recreated(ingest, partition, old, position->start);
	else if (position->gap)
		log_gap(ingest, partition, position);
}

static void refuse(struct ingest *ingest, const struct partition *partition)
{
	struct err err = ERR_INIT;

	(void)err_set(&err, FAULT_KAFKA,
		"%s/%d: neither the group nor the database has an offset, and "
		"kafka.auto.offset.reset is \"error\": set a start with `inboxd seek` or "
		"inbox.seek(), or another "
		"policy",
		partition->topic, (int)partition->partition);
	ingest_fault(ingest, &err);
}

/* --- Deciding ---------------------------------------------------------------------------------- */

static struct start_offset_facts facts_of(const struct ingest *ingest,
	const struct partition *partition, const struct answers *answers, size_t i)
{
	int64_t group = answers->group[i].offset;
	bool watermark_only = partition->start.watermark_only || partition->start.from_next;

	return (struct start_offset_facts){
		.watermark =
			partition->start.from_next ? partition->read.next : partition->table.next,
		.group = watermark_only || group < 0 ? -1 : group,
		.low = answers->low[i].offset,
		.high = answers->high[i].offset,
		.last_offset = partition->table.last.offset,
		.last_timestamp = partition->table.last.timestamp,
		.last_digest = partition->table.last.digest.known,
		.watermark_only = watermark_only,
		.recreated = partition->start.recreated,
		.reset = start_offset_policy(
			consumer_conf_value(ingest->options.config, "auto.offset.reset", "")),
	};
}

static void set_verification(struct partition *partition, const struct start_offset_facts *facts,
	const struct start_offset *position)
{
	if (position->verify) {
		partition->verify.offset = facts->last_offset;
		partition->verify.timestamp = facts->last_timestamp;
		partition->verify.digest = partition->table.last.digest;
	} else if (!partition->start.from_next || position->recreated ||
		   partition->verify.offset < facts->low) {
		partition->verify.offset = -1;
	}
}

static void apply(struct ingest *ingest, struct partition *partition,
	const struct start_offset_facts *facts, const struct start_offset *position)
{
	bool elsewhere = position->recreated || position->gap;

	log_decision(ingest, partition, facts, position);
	set_verification(partition, facts, position);
	partition->read.next = position->start;
	if (!partition->start.from_next) {
		partition->read.last.offset = -1;
		partition->offsets.group = facts->group;
	}
	if (elsewhere)
		partition->read.last.offset = -1;
	if (position->recreated) {
		partition->start.rewound = true;
		partition->offsets.group = -1;
	}
	/* A start offset that differs from the watermark is written to the table without waiting for a record. Otherwise
	 * the next start would decide again and log the same gap again. */
	if (elsewhere || partition->table.next < 0) {
		partition->update.touched = true;
		if (ingest->storing.since_us == 0)
			ingest->storing.since_us = clock_now_us();
	} else if (partition->read.next <= partition->table.next) {
		/* a group that lost its offset gets it back */
		partition->offsets.stored = partition->read.next;
	}
	partition->start.watermark_only = false;
	partition->start.from_next = false;
	partition->start.recreated = false;
	partition->state = PARTITION_READING;
}

/* The error of a partition without all three answers; NULL = it has them. */
static const char *missing_answer(const struct answers *answers, size_t i)
{
	const struct partition_offset *const of[] = { &answers->low[i], &answers->high[i],
		&answers->group[i] };

	for (size_t k = 0; k < sizeof(of) / sizeof(of[0]); k++) {
		if (of[k]->error != NULL)
			return of[k]->error;
	}
	return answers->low[i].offset < 0 || answers->high[i].offset < 0 ? "no offset" : NULL;
}

static void decide_one(struct ingest *ingest, const struct answers *answers, size_t i)
{
	const char *error = missing_answer(answers, i);
	struct partition *partition = partitions_find(
		&ingest->partitions, answers->low[i].topic, answers->low[i].partition);
	struct start_offset_facts facts;
	struct start_offset position;

	if (error != NULL) {
		partition->retry_at_ms = clock_now_ms() + RETRY_MS;
		log_retry(ingest, error);
		return;
	}
	facts = facts_of(ingest, partition, answers, i);
	if (start_offset_decide(&facts, &position) == START_OFFSET_REFUSED)
		refuse(ingest, partition);
	else
		apply(ingest, partition, &facts, &position);
}

void start_offset_step(struct ingest *ingest)
{
	CLEANUP(freep) struct partition_offset *items = NULL;
	const struct partition_offset *due;
	struct answers answers;
	struct err err = ERR_INIT;
	size_t count = 0;
	int64_t now_ms = clock_now_ms();

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due =
			partition->state == PARTITION_TAKEN && now_ms >= partition->retry_at_ms;
	}
	due = partitions_select(&ingest->partitions, partition_is_due, &count);
	if (count == 0)
		return;
	items = calloc(3 * count, sizeof(*items));
	if (items == NULL) {
		(void)err_memory(&err);
		ingest_fault(ingest, &err);
		return;
	}
	answers = (struct answers){ items, items + count, items + 2 * count, count };
	for (size_t i = 0; i < count; i++)
		answers.low[i] = answers.high[i] = answers.group[i] = due[i];
	if (ask(ingest, &answers, &err) < 0) {
		for (size_t i = 0; i < ingest->partitions.count; i++) {
			if (ingest->partitions.items[i]->due)
				ingest->partitions.items[i]->retry_at_ms =
					clock_now_ms() + RETRY_MS;
		}
		log_retry(ingest, err.text);
		return;
	}
	for (size_t i = 0; i < count; i++)
		decide_one(ingest, &answers, i);
}
