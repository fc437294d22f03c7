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

/* The answers of the brokers about the due partitions: three arrays in the same order. Their topic ids are in the partitions. */
struct answers {
	struct partition_offset *low;
	struct partition_offset *high;
	struct partition_offset *group;
	size_t count;
};

/* What is decided about one partition. */
struct decision {
	struct start_offset_facts facts;
	struct start_offset position;
	bool sought;    /* an operator chose the watermark: outside the log it proves nothing */
	bool other_log; /* the topic was created again */
	enum topic_id_match id;
};

static int ask(struct ingest *ingest, const struct answers *answers, struct err *err)
{
	const struct log_query begin = { BROKER_LOG_BEGIN, BROKER_ANSWER_MS };
	const struct log_query end = { BROKER_LOG_END, BROKER_ANSWER_MS };
	struct rd_kafka_s *kafka = consumer_handle(ingest->consumer);
	int r = broker_query_committed(kafka, answers->group, answers->count, err);

	if (r == 0)
		flow_ask_topic_ids(ingest, false);
	if (r == 0)
		r = broker_query_log(kafka, begin, answers->low, answers->count, err);
	if (r == 0)
		r = broker_query_log(kafka, end, answers->high, answers->count, err);
	/* A topic with the same id before and behind these requests was not created again between them, so the ends are those
	 * of its log. */
	if (r == 0)
		flow_ask_topic_ids(ingest, true);
	return r;
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
	struct ingest *ingest, const struct partition *partition, const struct decision *decision)
{
	const struct start_offset_facts *facts = &decision->facts;

	log_warn("topic_recreated", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition),
		LOG_INT("old_offset", facts->watermark >= 0 ? facts->watermark : facts->group),
		LOG_INT("new_offset", decision->position.start),
		LOG_INT("generation", partition->log.generation),
		LOG_STR("why", decision->id == TOPIC_ID_OTHER ? "Kafka has another id for the topic"
			       : decision->id == TOPIC_ID_SAME
				       ? "the topic has the same id, but its log lost records"
				       : "the last stored record is not in the log"),
		LOG_STR("next", decision->position.recreated
					? "reading from the earliest record; known ids are not "
					  "stored twice"
					: "reading from the offset that an operator chose"));
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
static void log_decision(
	struct ingest *ingest, const struct partition *partition, const struct decision *decision)
{
	if (decision->sought)
		log_sought(partition, &decision->facts, &decision->position);
	if (decision->other_log || (decision->position.recreated && !decision->sought))
		log_recreated(ingest, partition, decision);
	else if (decision->position.gap && !decision->sought)
		log_gap(ingest, partition, &decision->position);
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
	const char *reset = consumer_conf_value(ingest->options.config, "auto.offset.reset", "");

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
		/* of a partition that did not exist when the group began, nothing was there to skip */
		.reset = partition->table.at_begin ? start_offset_policy(reset) : RESET_EARLIEST,
	};
}

/* The topic id alone proves that a topic was created again, or that it was not: a log with the same id has lost records,
 * and those that are read again must find their rows. Without an id, the last stored record decides. */
static int decide(const struct ingest *ingest, const struct partition *partition,
	const struct answers *answers, size_t i, struct decision *out)
{
	int r;

	*out = (struct decision){
		.facts = facts_of(ingest, partition, answers, i),
		.sought = partition->table.forced && partition->start.watermark_only &&
			  partition->table.next >= 0,
		.id = topic_log_match(&partition->log, partition->topic_id),
	};
	out->other_log = out->id == TOPIC_ID_OTHER;
	out->facts.recreated |= out->other_log && !out->sought;
	r = start_offset_decide(&out->facts, &out->position);
	out->other_log |= out->position.recreated && !out->sought && out->id == TOPIC_ID_UNPROVEN;
	return r;
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

/* The group's offset is one of the earlier log. */
static void begin_log(struct partition *partition, const struct decision *decision)
{
	if (decision->other_log)
		topic_log_begin(&partition->log, 0, partition->topic_id);
	if (!decision->position.recreated)
		return;
	partition->start.rewound = true;
	partition->offsets.group = -1;
}

static void apply(
	struct ingest *ingest, struct partition *partition, const struct decision *decision)
{
	const struct start_offset *position = &decision->position;
	bool elsewhere = position->recreated || position->gap;

	set_verification(partition, &decision->facts, position);
	partition->read.next = position->start;
	if (!partition->start.from_next) {
		partition->read.last.offset = -1;
		partition->offsets.group = decision->facts.group;
	}
	if (elsewhere || decision->other_log)
		partition->read.last.offset = -1;
	begin_log(partition, decision);
	log_decision(ingest, partition, decision);
	/* A start offset that differs from the watermark is written to the table without waiting for a record. Otherwise
	 * the next start would decide again and log the same gap again. */
	if (elsewhere || decision->other_log || partition->table.next < 0)
		partition->update.touched = true;
	else if (partition->read.next <= partition->table.next)
		/* a group that lost its offset gets it back */
		partition->offsets.stored = partition->read.next;
	if (partition->verify.offset < 0)
		partition_verified(partition);
	if (partition->update.touched && ingest->storing.since_us == 0)
		ingest->storing.since_us = clock_now_us();
	partition->start.watermark_only = false;
	partition->start.from_next = false;
	partition->start.recreated = false;
	partition->stopped_ms = 0;
	partition->fetching.end = decision->facts.high;
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
	struct decision decision;

	if (!partition->due) /* its topic was created again meanwhile */
		return;
	if (error != NULL) {
		partition->retry_at_ms = clock_now_ms() + RETRY_MS;
		log_retry(ingest, error);
		return;
	}
	if (decide(ingest, partition, answers, i, &decision) == START_OFFSET_REFUSED)
		refuse(ingest, partition);
	else
		apply(ingest, partition, &decision);
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
