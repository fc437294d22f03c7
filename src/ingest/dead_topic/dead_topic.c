/*
 * Implements dead_topic.h. Once a second a round counts the deaths that are not produced yet. The
 * elected instance sends a batch, and continues with the next one without a pause.
 *
 * A row that could not be marked because it was locked is remembered, and not sent again while this
 * thread lives. Refused records delay nothing behind them. When a pass with refusals has ended, the
 * next one starts from the beginning after a minute or nine times the duration of the pass,
 * whichever is longer.
 */
#include "ingest/dead_topic/dead_topic.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "ingest/dead_topic/dead_rounds.h"
#include "report/meters.h"

#define COUNT_CAP        10000
#define IDLE_MS          1000
#define PAUSE_LEAST_MS   1000
#define PAUSE_MOST_MS    30000
#define PRODUCER_KEEP_MS 60000 /* without work */
#define LOG_EVERY_MS     60000
#define LOCK_TIMEOUT_MS  1000
#define STATEMENT_MS     10000
#define REFUSED_LEAST_MS 60000 /* pause before refused records are tried again */
#define REFUSED_TIMES    9     /* multiple of the duration of the pass */
#define DEREGISTER_MS                                                                              \
	4000 /* the last confirmation takes at most two seconds; then it is recorded */

static const char *topic_of(const struct dead_topic *dead)
{
	return dead->periodic.known->retry.dead_topic;
}

static int count_waiting(struct dead_topic *dead, struct err *err)
{
	int r = periodic_open_db(&dead->periodic, err);

	if (r == 0)
		r = dead_rounds_note(dead, err);
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

static bool is_behind(const struct death *death, const struct death *place)
{
	return death->died_us == place->died_us ? death->seq > place->seq
						: death->died_us > place->died_us;
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
		dead_rounds_restart(dead);
}

/* 0: a batch was sent. DEAD_ROUND_EMPTY: there is nothing to send, or another instance is elected. */
static int send_next(struct dead_topic *dead, struct err *err)
{
	int r = count_waiting(dead, err);

	if (r != 0)
		return r;
	if (!more_waits(dead)) {
		end_pass(dead);
		return DEAD_ROUND_EMPTY;
	}
	r = dead_elect(dead->periodic.db, dead->options.instance, err);
	if (r != 0)
		return r == DEAD_ANOTHERS ? DEAD_ROUND_EMPTY : r;
	dead->elected = true;
	if (dead->producer == NULL)
		r = dead_rounds_ready(dead, err);
	return r != 0 || periodic_is_stopping(&dead->periodic) ? r : dead_rounds_send(dead, err);
}

static void failed(void *arg, const struct err *err, int64_t retry_ms, bool first)
{
	struct dead_topic *dead = arg;
	int64_t held = 0;

	(void)first; /* fault_log_limit decides how often a fault is logged */
	if (err->fault != FAULT_DATABASE) {
		metric_add(dead->failures, 1);
		resign(dead);
	}
	dead_rounds_drop_producer(dead);
	if (fault_log_limit_pass(&dead->fault_limit, clock_now_ms(), &held))
		log_warn("dead_topic_failed", LOG_STR("topic", topic_of(dead)),
			LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
			LOG_INT("waiting", dead->waiting.all), LOG_INT("retry_in_ms", retry_ms),
			LOG_STR("next",
				"dead messages stay in the table; nothing else is affected"),
			LOG_INT("held_back", held));
}

static void recovered(void *arg)
{
	struct dead_topic *dead = arg;

	log_info("dead_topic_back", LOG_STR("topic", topic_of(dead)));
	dead->fault_limit.passed = 0; /* so that the next fault is logged at once */
}

/* A new topic needs a new producer, and it may accept messages that the previous one refused. */
static void configured(void *arg, const struct config *config)
{
	struct dead_topic *dead = arg;

	(void)config;
	dead_rounds_drop_producer(dead);
	dead_rounds_restart(dead);
	/* faults of the previous topic say nothing about this one */
	dead->periodic.fault_pause_ms = 0;
}

static int run_round(void *arg, int64_t *pause_ms, struct err *err)
{
	struct dead_topic *dead = arg;
	int r;

	if (topic_of(dead)[0] == '\0') {
		resign(dead);
		periodic_drop_db(&dead->periodic);
		metric_set(dead->waiting_gauge, 0);
		*pause_ms = PAUSE_MOST_MS;
		return PERIODIC_IDLE;
	}
	r = send_next(dead, err);
	if (r != DEAD_ROUND_EMPTY)
		return r;
	if (dead->producer != NULL && clock_now_ms() - dead->used_ms > PRODUCER_KEEP_MS)
		dead_rounds_drop_producer(dead);
	*pause_ms = IDLE_MS;
	return PERIODIC_IDLE;
}

static void end(void *arg)
{
	struct dead_topic *dead = arg;

	dead_rounds_drop_producer(dead);
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
	dead->fault_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->cut_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->refused_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
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
	dead_rounds_drop_producer(dead);
	periodic_fini(&dead->periodic);
	free(dead);
}
