/*
 * Finds the start offset of acquired partitions: asks for the ends of the log and for the group's offsets, decides with
 * start_offset_policy.h, and logs recreated topics and gaps. An offset that Kafka cannot confirm is never used: the
 * partition waits.
 *
 * A broker that does not answer delays only the partitions that it leads (background_query.h). So the first query finds the
 * leaders of the partitions whose leader is not known. Then there is one query for each leader. The group's offsets come
 * from its coordinator. A partition that was read before does not need them. It has a query without them, so that it does
 * not wait for the coordinator. The ingest thread waits for an answer only for the time that a broker without a fault
 * needs. It uses a later answer in a later round, if the partition still waits for the same query.
 */
#include "ingest/partitions/steps.h"

#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/partitions/flow.h"
#include "ingest/partitions/start_offset_policy.h"
#include "report/meters.h"

#define RETRY_MS           1000
#define PROMPT_MS          50   /* an answer of a broker that is well */
#define OLD_MS             2000 /* an older answer is not used: the broker is asked again */
#define TOPIC_IDS_RETRY_MS 60000

#define PARTS_OF_LOG       (QUERY_BEGIN | QUERY_END)

/* What is decided about one partition. */
struct decision {
	struct start_offset_facts facts;
	struct start_offset position;
	bool sought;    /* an operator chose the watermark: outside the log it proves nothing */
	bool other_log; /* the topic was created again */
	enum topic_id_match id;
};

static void try_later(struct ingest *ingest, struct partition *partition, const char *error)
{
	const int64_t now_ms = clock_now_ms();
	int64_t held = 0;

	if (fault_log_limit_pass(&ingest->start_log_limit, now_ms, &held))
		log_warn("start_unknown", LOG_STR("topic", partition->topic),
			LOG_INT("partition", partition->partition),
			LOG_INT("broker", partition->leader), LOG_STR("error", error),
			LOG_INT("retry_in_ms", RETRY_MS), LOG_INT("held_back", held),
			LOG_STR("next", "the partition waits until Kafka has answered; the "
					"partitions that are read already do not wait for it"));
	partition->leader = -1;
	partition->retry_at_ms = now_ms + RETRY_MS;
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

/* The group's offset does not count. */
static bool follows_watermark(const struct partition *partition)
{
	return partition->start.watermark_only || partition->start.from_next;
}

static struct start_offset_facts facts_of(const struct ingest *ingest,
	const struct partition *partition, const struct query_answer *answer)
{
	bool watermark_only = follows_watermark(partition);
	const char *reset = consumer_conf_value(ingest->options.config, "auto.offset.reset", "");

	return (struct start_offset_facts){
		.watermark =
			partition->start.from_next ? partition->read.next : partition->table.next,
		.group = watermark_only || answer->group < 0 ? -1 : answer->group,
		.low = answer->begin,
		.high = answer->end,
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
	const struct query_answer *answer, struct decision *out)
{
	int r;

	*out = (struct decision){
		.facts = facts_of(ingest, partition, answer),
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
	partition->stopped_ms = clock_now_ms(); /* until it flows */
	partition->leader_is_new = false;
	partition->fetching.end = decision->facts.high;
	partition->state = PARTITION_READING;
}

/* --- Answers ----------------------------------------------------------------------------------- */

/* The leader has answered for the logs. */
static void note_topic_ids(struct ingest *ingest, const struct background_query *query)
{
	if (query->ids_err.fault == 0 || clock_now_ms() < ingest->topic_ids_at_ms)
		return;
	ingest->topic_ids_at_ms = clock_now_ms() + TOPIC_IDS_RETRY_MS;
	log_warn("topic_ids_unknown", LOG_STR("error", query->ids_err.text),
		LOG_INT("retry_in_ms", TOPIC_IDS_RETRY_MS),
		LOG_STR("next", "until then a topic that was created again is noticed only "
				"if its last stored record is another one"));
}

static void decide_one(struct ingest *ingest, struct partition *partition,
	const struct background_query *query, const struct query_answer *answer)
{
	struct decision decision;

	note_topic_ids(ingest, query);
	memcpy(partition->topic_id, answer->topic_id, sizeof(answer->topic_id));
	if (decide(ingest, partition, answer, &decision) == START_OFFSET_REFUSED)
		refuse(ingest, partition);
	else
		apply(ingest, partition, &decision);
}

static void note_leader(struct partition *partition, int32_t leader)
{
	partition->leader = leader;
	partition->leader_is_new = true;
}

/* The ends of the logs come from the current leaders. The topic ids come from a broker that may have left the cluster since it
 * was asked for. */
static void take_answer(struct ingest *ingest, const struct background_query *query, size_t i)
{
	const struct query_answer *answer = &query->answers[i];
	struct partition *partition = partitions_find(
		&ingest->partitions, query->partitions[i].topic, query->partitions[i].partition);

	if (partition->query != query->id)
		return;
	partition->query = 0;
	if (answer->error != NULL)
		try_later(ingest, partition, answer->error);
	else if (query->request.leader < 0)
		note_leader(partition, answer->leader);
	else if (query->ids_err.fault != 0 && !partition->leader_is_new)
		try_later(ingest, partition, query->ids_err.text);
	else if (!answer->other_log && clock_now_ms() - query->answered_ms < OLD_MS)
		decide_one(ingest, partition, query, answer);
}

static void take_answers(struct ingest *ingest)
{
	struct background_query *query;

	while ((query = background_query_take(&ingest->queries)) != NULL) {
		for (size_t i = 0; i < query->count; i++)
			take_answer(ingest, query, i);
		background_query_free(query);
	}
}

/* --- Questions --------------------------------------------------------------------------------- */

static unsigned parts_for(const struct ingest *ingest, const struct partition *partition)
{
	if (partition->leader < 0)
		return QUERY_LEADERS;
	return PARTS_OF_LOG | (follows_watermark(partition) ? 0 : QUERY_GROUP) |
	       (clock_now_ms() < ingest->topic_ids_at_ms ? 0 : QUERY_IDS);
}

/* Asks for the due partitions that need the same from the same broker as `first`. */
static void ask_with(struct ingest *ingest, const struct partition *first)
{
	const struct query_request request = { consumer_handle(ingest->consumer),
		parts_for(ingest, first), first->leader };
	struct partition_offset *items = calloc(ingest->partitions.count, sizeof(*items));
	const uint64_t id = ingest->queries.begun + 1;
	struct err err = ERR_INIT;
	size_t count = 0;
	int r;

	for (size_t i = 0; i < ingest->partitions.count && items != NULL; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (!partition->due || partition->leader != request.leader ||
			parts_for(ingest, partition) != request.parts)
			continue;
		items[count++] = (struct partition_offset){ partition->topic, partition->partition,
			-1, NULL };
		partition->query = id;
		partition->due = false;
	}
	r = items == NULL ? err_memory(&err)
			  : background_query_begin(&ingest->queries, &request, items, count, &err);
	for (size_t i = 0; i < ingest->partitions.count && r < 0; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (partition == first || partition->query == id) {
			partition->query = 0;
			partition->due = false;
			try_later(ingest, partition, err.text);
		}
	}
}

/* True: a query has begun. */
static bool ask(struct ingest *ingest)
{
	const uint64_t begun = ingest->queries.begun;
	const int64_t now_ms = clock_now_ms();

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		partition->due = partition->state == PARTITION_TAKEN && partition->query == 0 &&
				 now_ms >= partition->retry_at_ms &&
				 !background_query_is_open(&ingest->queries,
					 parts_for(ingest, partition), partition->leader);
	}
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		if (ingest->partitions.items[i]->due)
			ask_with(ingest, ingest->partitions.items[i]);
	}
	return ingest->queries.begun != begun;
}

/* Sends queries twice: the answer with the leaders mostly comes at once, and then each leader can be asked. */
void start_offset_step(struct ingest *ingest)
{
	uint64_t begun;

	if (ingest->outage.down || flow_is_halted(ingest))
		return;
	take_answers(ingest);
	for (int i = 0; i < 2; i++) {
		begun = ingest->queries.begun;
		if (!ask(ingest))
			return;
		background_queries_wait(&ingest->queries, begun, PROMPT_MS);
		take_answers(ingest);
	}
}
