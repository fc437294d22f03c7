/*
 * Implements dead_rounds.h. A pass walks through the deaths in the order in which they happened,
 * from `dead->position` on. Confirmed records are marked in the table. A refused record does not
 * stop the pass: it goes on behind it, and the next pass tries the record again.
 */
#include "ingest/dead_topic/dead_rounds.h"

#include "base/clock.h"
#include "base/log.h"
#include "ingest/kafka/consumer_conf.h"

#define BATCH_BYTES  (4LL << 20)
#define TOPIC_CHECKS 5 /* one second each */

void dead_rounds_drop_producer(struct dead_topic *dead)
{
	producer_free(dead->producer);
	dead->producer = NULL;
}

/* --- Preparing the producer -------------------------------------------------------------------- */

static int no_topic(const char *topic, struct err *err)
{
	return err_set(err, FAULT_KAFKA,
		"topic \"%s\" does not exist, or is not visible with these credentials: create it, "
		"or grant DESCRIBE and WRITE",
		topic);
}

/* Creates a new producer, which has none of the errors of the previous one. */
int dead_rounds_ready(struct dead_topic *dead, struct err *err)
{
	const char *topic = dead->periodic.known->retry.dead_topic;
	int r = producer_new(&dead->producer, dead->periodic.known, err);

	if (r != 0)
		return r;
	for (int i = 0; i < TOPIC_CHECKS && !periodic_is_stopping(&dead->periodic); i++) {
		r = producer_look(dead->producer, topic, err);
		if (r == 0)
			return 0;
		if (r == PRODUCER_NO_TOPIC)
			r = no_topic(topic, err);
		else if (i + 1 < TOPIC_CHECKS)
			continue;
		break;
	}
	dead_rounds_drop_producer(dead);
	return r;
}

/* --- A batch ----------------------------------------------------------------------------------- */

static struct death death_of(const struct rows *rows, int row)
{
	return (struct death){
		.seq = rows_int(rows, row, DEAD_SEQ),
		.died_us = rows_int(rows, row, DEAD_DIED_US),
	};
}

void dead_rounds_restart(struct dead_topic *dead)
{
	dead->position = (struct death){ .seq = 0 };
	dead->again_ms = 0;
}

int dead_rounds_note(struct dead_topic *dead, struct err *err)
{
	return dead->sent.count == 0
		       ? 0
		       : dead_mark(dead->periodic.db, dead->sent.items, &dead->sent.count, err);
}

static void log_cut(struct dead_topic *dead, const struct rows *rows, int row)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&dead->cut_limit, clock_now_ms(), &held))
		log_warn("dead_message_cut",
			LOG_STR("event_id", rows_text(rows, row, DEAD_EVENT_ID)),
			LOG_INT("seq", rows_int(rows, row, DEAD_SEQ)),
			LOG_STR("topic", dead->periodic.known->retry.dead_topic),
			LOG_STR("next", "produced without its value and headers, which the table "
					"still has; raise max.message.bytes of the topic"),
			LOG_INT("held_back", held));
}

/* The record delays nothing behind it. Another instance could not produce it either; the next pass
 * tries it again. */
static void log_refused(
	struct dead_topic *dead, const struct rows *rows, int row, const char *error)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&dead->refused_limit, clock_now_ms(), &held))
		log_warn("dead_message_refused",
			LOG_STR("topic", dead->periodic.known->retry.dead_topic),
			LOG_STR("event_id", rows_text(rows, row, DEAD_EVENT_ID)),
			LOG_INT("seq", rows_int(rows, row, DEAD_SEQ)), LOG_STR("error", error),
			LOG_STR("next", "it stays in the table; retried after a minute or more"),
			LOG_INT("held_back", held));
}

/* After a refusal the pass continues behind the last row that was examined. Without a refusal it
 * stays at the beginning: produced rows are marked and not fetched again, and a message that died
 * earlier but was committed later is still found. */
static void advance_pass(struct dead_topic *dead, struct death last, bool refused)
{
	if (dead->position.seq == 0 && !refused)
		return;
	if (dead->position.seq == 0)
		dead->refused_ms = clock_now_ms();
	dead->position = last;
}

/* Classifies the result of each record. The first failure that is not a refusal becomes the fault. */
static int classify(struct dead_topic *dead, const struct rows *rows, struct err *err)
{
	const char *words = producer_last_words(dead->producer);
	int64_t produced = 0;
	int classified = dead->batch.count;
	int refused = 0;
	int r = 0;

	for (int row = 0; row < dead->batch.count; row++) {
		const struct produce_result *result = &dead->batch.results[row];

		if (result->outcome == PRODUCE_CONFIRMED) {
			dead->sent.items[dead->sent.count++] = death_of(rows, row);
			produced++;
			if (dead->batch.cut[row])
				log_cut(dead, rows, row);
		} else if (dead->batch.postponed[row]) {
			classified = row < classified ? row : classified;
		} else if (result->outcome == PRODUCE_REFUSED) {
			log_refused(dead, rows, row, result->error);
			refused++;
		} else if (r == 0) {
			r = err_set(err, FAULT_KAFKA, "message with seq %lld: %s%s%s",
				(long long)rows_int(rows, row, DEAD_SEQ), result->error,
				words[0] == '\0' ? "" : "; ", words);
		}
	}
	if (refused > 0)
		metric_add(dead->failures, 1);
	if (r == 0 && classified > 0)
		advance_pass(dead, death_of(rows, classified - 1), refused > 0);
	metric_add(dead->produced, produced);
	dead->used_ms = clock_now_ms();
	return r;
}

static int fetch(struct dead_topic *dead, struct rows **rows, struct err *err)
{
	struct dead_request request = {
		.max_rows = DEAD_BATCH_MOST,
		.max_bytes = BATCH_BYTES,
		.after = dead->position,
		.without = dead->sent.items,
		.without_count = dead->sent.count,
	};

	if (dead->sent.count + DEAD_BATCH_MOST > LIST_MOST)
		return err_set(err, FAULT_DATABASE,
			"%zu messages were produced and cannot be marked as produced: their rows "
			"are locked",
			dead->sent.count);
	return dead_fetch(dead->periodic.db, &request, rows, err);
}

int dead_rounds_send(struct dead_topic *dead, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct err later = ERR_INIT;
	bool known;
	int r;

	r = fetch(dead, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return DEAD_ROUND_EMPTY;
	dead->batch.producer = dead->producer;
	dead->batch.count = rows_count(rows);
	dead->batch.source = (struct dead_record_source){
		.rows = rows,
		.topic = dead->periodic.known->retry.dead_topic,
		.group = consumer_conf_value(dead->periodic.known, "group.id", ""),
	};
	known = dead_batch_send(&dead->batch);
	r = classify(dead, rows, err);
	if (!known)
		dead_rounds_drop_producer(dead); /* otherwise it would write results later */
	if (dead_rounds_note(dead, r == 0 ? err : &later) < 0 && r == 0)
		r = err->fault;
	return r;
}
