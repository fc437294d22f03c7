/*
 * Implements dead_topic.h. Once a second a round counts the deaths that are not produced yet. The
 * elected instance sends a batch, and continues with the next one without a pause.
 *
 * A batch is sent from `dead->position` on, in the order of the deaths. Confirmed records are marked in the table.
 *
 * A row that could not be marked, because it was locked or PostgreSQL refused to change it, is remembered, and not sent
 * again while this thread lives. Refused records delay nothing behind them. When a pass with refusals has ended, the
 * next one starts from the beginning after a minute or nine times the duration of the pass,
 * whichever is longer.
 */
#include "ingest/dead_topic/dead_topic.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/dead_topic/dead_batch.h"
#include "ingest/fault_log_limit.h"
#include "ingest/kafka/consumer_conf.h"
#include "periodic/periodic.h"
#include "report/meters.h"
#include "store/periodic/dead_messages.h"

#define COUNT_CAP        10000
#define IDLE_MS          1000
#define PAUSE_LEAST_MS   1000
#define PAUSE_MOST_MS    30000
#define PRODUCER_KEEP_MS 60000 /* without work */
#define LOG_EVERY_MS     60000
#define LOCK_TIMEOUT_MS  1000
#define STATEMENT_MS     10000
#define REFUSED_LEAST_MS 60000 /* pause before refused records, or rows, are tried again */
#define REFUSED_TIMES    9     /* multiple of the duration of the pass */
#define DEREGISTER_MS                                                                              \
	4000 /* the last confirmation takes at most two seconds; then it is recorded */

#define BATCH_BYTES  (4LL << 20)
#define TOPIC_CHECKS 5 /* one second each */

#define LIST_MOST    9000

struct deaths {
	struct death items[LIST_MOST];
	size_t count;
};

/* All fields belong to the thread of `periodic`. */
struct dead_topic {
	struct dead_topic_options options;
	struct periodic periodic;
	struct producer *producer; /* NULL = none; it has seen the topic */
	int64_t used_ms;           /* time of the last use of the producer */
	bool elected;
	struct deaths sent; /* confirmed by the brokers, not yet recorded in the table */
	/* the pass has sent or refused everything up to this death; seq 0: nothing was refused */
	struct death position;
	int64_t refused_ms;          /* time of the first refusal in this pass */
	int64_t again_ms;            /* start of the next pass; 0 = this pass has not ended */
	struct dead_waiting waiting; /* counted in the table in the last round */
	struct dead_batch batch;
	bool told; /* the faults have a line */
	struct fault_log_limit refused_limit;
	struct fault_log_limit cut_limit;
	struct fault_log_limit unmarked_limit;
	int64_t unmarked_again_ms; /* rows that PostgreSQL refused to mark are not tried before */
	struct metric *waiting_gauge;
	struct metric *produced;
	struct metric *failures;
};

enum { ROUND_EMPTY = 1 }; /* of send_batch() and send_next() */

static const char *topic_of(const struct dead_topic *dead)
{
	return dead->periodic.known->retry.dead_topic;
}

static void drop_producer(struct dead_topic *dead)
{
	producer_free(dead->producer);
	dead->producer = NULL;
}

/* --- Preparing the producer -------------------------------------------------------------------- */

/* Creates a producer that has seen the topic. It has none of the errors of the previous one. */
static int make_producer(struct dead_topic *dead, struct err *err)
{
	const char *topic = topic_of(dead);
	int r = producer_new(&dead->producer, dead->periodic.known, PRODUCER_DEAD_TOPIC,
		dead->options.metrics, err);

	if (r != 0)
		return r;
	for (int i = 0; i < TOPIC_CHECKS && !periodic_is_stopping(&dead->periodic); i++) {
		r = producer_look(dead->producer, topic, err);
		if (r == 0)
			return 0;
		if (r == PRODUCER_BAD_TOPIC)
			r = err->fault;
		if (r == PRODUCER_NO_TOPIC)
			r = err_set(err, FAULT_KAFKA,
				"topic \"%s\" does not exist, or is not visible with these "
				"credentials: create it, or grant DESCRIBE and WRITE",
				topic_of(dead));
		else if (i + 1 < TOPIC_CHECKS)
			continue;
		break;
	}
	drop_producer(dead);
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

static void restart_pass(struct dead_topic *dead)
{
	dead->position = (struct death){ .seq = 0 };
	dead->again_ms = 0;
}

static void log_unmarked(struct dead_topic *dead, const struct err *refusal)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&dead->unmarked_limit, clock_now_ms(), &held))
		log_warn("dead_message_unmarked", LOG_STR("topic", topic_of(dead)),
			LOG_STR("error", refusal->text), LOG_STR("sqlstate", refusal->state),
			LOG_STR("next", "its record is in the dead topic; its row is marked when "
					"PostgreSQL accepts the change, and others are produced"),
			LOG_INT("held_back", held));
}

/* Moves the deaths whose rows PostgreSQL refused to change to the front. Returns their number. */
static size_t put_refused_first(struct deaths *deaths)
{
	size_t refused = 0;

	for (size_t i = 0; i < deaths->count; i++) {
		const struct death death = deaths->items[i];

		if (!death.refused)
			continue;
		deaths->items[i] = deaths->items[refused];
		deaths->items[refused++] = death;
	}
	return refused;
}

/* A refused row is tried again once a minute only, because each try costs some statements that fail. */
static int mark_sent(struct dead_topic *dead, struct err *err)
{
	struct deaths *sent = &dead->sent;
	const int64_t now_ms = clock_now_ms();
	size_t first = now_ms < dead->unmarked_again_ms ? put_refused_first(sent) : 0;
	size_t count = sent->count - first;
	struct err refusal = ERR_INIT;
	int r = dead_mark(dead->periodic.db, sent->items + first, &count, &refusal, err);

	sent->count = first + count;
	if (refusal.fault != 0) {
		dead->unmarked_again_ms = now_ms + REFUSED_LEAST_MS;
		log_unmarked(dead, &refusal);
	}
	return r;
}

static void log_cut(struct dead_topic *dead, const struct rows *rows, int row)
{
	int64_t held = 0;

	if (fault_log_limit_pass(&dead->cut_limit, clock_now_ms(), &held))
		log_warn("dead_message_cut",
			LOG_STR("event_id", rows_text(rows, row, DEAD_EVENT_ID)),
			LOG_INT("seq", rows_int(rows, row, DEAD_SEQ)),
			LOG_STR("topic", topic_of(dead)),
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
		log_warn("dead_message_refused", LOG_STR("topic", topic_of(dead)),
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
			"are locked, or PostgreSQL refuses to change them",
			dead->sent.count);
	return dead_fetch(dead->periodic.db, &request, rows, err);
}

static int send_batch(struct dead_topic *dead, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct err later = ERR_INIT;
	bool known;
	int r;

	r = fetch(dead, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return ROUND_EMPTY;
	dead->batch.producer = dead->producer;
	dead->batch.count = rows_count(rows);
	dead->batch.source = (struct dead_record_source){
		.rows = rows,
		.topic = topic_of(dead),
		.group = consumer_conf_value(dead->periodic.known, "group.id", ""),
	};
	known = dead_batch_send(&dead->batch);
	r = classify(dead, rows, err);
	if (!known)
		drop_producer(dead); /* otherwise it would write results later */
	if (mark_sent(dead, r == 0 ? err : &later) < 0 && r == 0)
		r = err->fault;
	return r;
}

/* --- A round ----------------------------------------------------------------------------------- */

static int count_waiting(struct dead_topic *dead, struct err *err)
{
	int r = periodic_open_db(&dead->periodic, err);

	if (r == 0)
		r = mark_sent(dead, err);
	if (r == 0)
		r = dead_count(dead->periodic.db, COUNT_CAP, &dead->position, &dead->waiting, err);
	if (r == 0)
		metric_set(dead->waiting_gauge, (double)dead->waiting.all);
	return r;
}

static void resign(struct dead_topic *dead)
{
	struct err err = ERR_INIT;

	if (dead->elected && dead->periodic.db != NULL && db_is_open(dead->periodic.db))
		(void)dead_resign(dead->periodic.db, dead->options.instance, &err);
	dead->elected = false;
}

static bool is_behind(const struct death *death, const struct death *position)
{
	return death->died_us == position->died_us ? death->seq > position->seq
						   : death->died_us > position->died_us;
}

/* True when the table has deaths behind `position` that are not sent yet. */
static bool more_waits(const struct dead_topic *dead)
{
	int64_t sent = 0;

	for (size_t i = 0; i < dead->sent.count; i++)
		sent += dead->position.seq == 0 || is_behind(&dead->sent.items[i], &dead->position);
	return dead->waiting.behind > sent;
}

/* The pass with refusals has ended: schedules the next one. */
static void end_pass(struct dead_topic *dead)
{
	int64_t now_ms = clock_now_ms();
	int64_t pause_ms = (now_ms - dead->refused_ms) * REFUSED_TIMES;

	if (dead->position.seq == 0)
		return;
	if (dead->again_ms == 0)
		dead->again_ms =
			now_ms + (pause_ms > REFUSED_LEAST_MS ? pause_ms : REFUSED_LEAST_MS);
	else if (now_ms >= dead->again_ms)
		restart_pass(dead);
}

/* 0: a batch was sent. ROUND_EMPTY: there is nothing to send, or another instance is elected. */
static int send_next(struct dead_topic *dead, struct err *err)
{
	int r = count_waiting(dead, err);

	if (r != 0)
		return r;
	if (!more_waits(dead)) {
		end_pass(dead);
		return ROUND_EMPTY;
	}
	r = dead_elect(dead->periodic.db, dead->options.instance, err);
	if (r != 0)
		return r == DEAD_ANOTHERS ? ROUND_EMPTY : r;
	dead->elected = true;
	if (dead->producer == NULL)
		r = make_producer(dead, err);
	return r != 0 || periodic_is_stopping(&dead->periodic) ? r : send_batch(dead, err);
}

static void failed(
	void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line)
{
	struct dead_topic *dead = arg;

	if (err->fault != FAULT_DATABASE) {
		metric_add(dead->failures, 1);
		resign(dead);
	}
	drop_producer(dead);
	if (line == NULL || (dead->waiting.all == 0 && db_error_kind(err) == PG_ERROR_LOST))
		return;
	dead->told = true;
	log_warn("dead_topic_failed", LOG_STR("topic", topic_of(dead)), LOG_STR("error", err->text),
		LOG_STR("sqlstate", err->state), LOG_INT("waiting", dead->waiting.all),
		LOG_INT("retry_in_ms", retry_ms),
		LOG_STR("next", "dead messages stay in the table; nothing else is affected"),
		LOG_OUTAGE(line, clock_now_ms()));
}

static void recovered(void *arg, const struct outage_log *line)
{
	struct dead_topic *dead = arg;

	if (line != NULL && dead->told)
		log_info("dead_topic_back", LOG_STR("topic", topic_of(dead)),
			LOG_INT("failures", line->failures),
			LOG_OUTAGE_ENDED(line, clock_now_ms()));
	dead->told = false;
}

/* A new topic needs a new producer, and it may accept messages that the previous one refused. */
static void configured(void *arg, const struct config *config)
{
	struct dead_topic *dead = arg;

	(void)config;
	drop_producer(dead);
	restart_pass(dead);
	/* faults of the previous topic say nothing about this one */
	dead->periodic.fault_pause_ms = 0;
}

static int run_round(void *arg, int64_t *pause_ms, struct err *err)
{
	struct dead_topic *dead = arg;
	int r;

	if (topic_of(dead)[0] == '\0') {
		resign(dead);
		periodic_rest(&dead->periodic);
		metric_set(dead->waiting_gauge, 0);
		*pause_ms = PAUSE_MOST_MS;
		return PERIODIC_IDLE;
	}
	r = send_next(dead, err);
	if (r != ROUND_EMPTY)
		return r;
	if (dead->producer != NULL && clock_now_ms() - dead->used_ms > PRODUCER_KEEP_MS)
		drop_producer(dead);
	*pause_ms = IDLE_MS;
	return PERIODIC_IDLE;
}

static void end(void *arg)
{
	struct dead_topic *dead = arg;

	drop_producer(dead);
	resign(dead);
}

static const struct periodic_task task = {
	.thread = "dead topic",
	.lock_timeout_ms = LOCK_TIMEOUT_MS,
	.statement_timeout_ms = STATEMENT_MS,
	.fault_pause_least_ms = PAUSE_LEAST_MS,
	.fault_pause_most_ms = PAUSE_MOST_MS,
	.stop_grace_ms = DEREGISTER_MS,
	.round = run_round,
	.failed = failed,
	.recovered = recovered,
	.configured = configured,
	.end = end,
};

/* --- Start and end ----------------------------------------------------------------------------- */

int dead_topic_new(
	struct dead_topic **out, const struct dead_topic_options *options, struct err *err)
{
	struct dead_topic *dead = calloc(1, sizeof(*dead));
	const struct periodic_options periodic = { &task, options->config, options->metrics,
		options->instance, dead };
	int r;

	if (dead == NULL)
		return err_memory(err);
	dead->options = *options;
	dead->cut_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->refused_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->unmarked_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->batch.stop = &dead->periodic.thread.stop;
	dead->waiting_gauge = metrics_get(options->metrics, METER_DEAD_TOPIC_WAITING, NULL, NULL);
	dead->produced = metrics_get(options->metrics, METER_DEAD_TOPIC_PRODUCED, NULL, NULL);
	dead->failures = metrics_get(options->metrics, METER_DEAD_TOPIC_FAILURES, NULL, NULL);
	r = periodic_init(&dead->periodic, &periodic, err);
	if (r != 0) {
		dead_topic_free(dead);
		return r;
	}
	*out = dead;
	return 0;
}

int dead_topic_start(struct dead_topic *dead, struct err *err)
{
	return periodic_start(&dead->periodic, err);
}

void dead_topic_reload(struct dead_topic *dead, const struct config *config)
{
	periodic_reload(&dead->periodic, config);
}

void dead_topic_begin_stop(struct dead_topic *dead)
{
	if (dead != NULL)
		periodic_request_stop(&dead->periodic);
}

void dead_topic_stop(struct dead_topic *dead)
{
	if (dead != NULL)
		periodic_stop(&dead->periodic);
}

void dead_topic_free(struct dead_topic *dead)
{
	if (dead == NULL)
		return;
	drop_producer(dead);
	periodic_fini(&dead->periodic);
	free(dead);
}
