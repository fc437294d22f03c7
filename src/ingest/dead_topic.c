/*
 * See dead_topic.h. A round looks every second whether something waits; who is elected sends a batch, and the next one
 * at once. What was sent and could not be noted (its row was locked) is remembered, and not sent again while this thread
 * lives. What the topic refuses holds up nothing behind it: the pass goes on behind it, to the end of what waits, and the
 * next pass begins at the first one again, after a minute or nine times as long as this one took.
 */
#include "ingest/dead_topic.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "ingest/dead_rounds.h"
#include "model/meters.h"

#define COUNT_CAP        10000
#define IDLE_MS          1000
#define PAUSE_LEAST_MS   1000
#define PAUSE_MOST_MS    30000
#define PRODUCER_KEEP_MS 60000 /* without work */
#define LOG_EVERY_MS     60000
#define LOCK_TIMEOUT_MS  1000
#define STATEMENT_MS     10000
#define REFUSED_LEAST_MS 60000 /* before what was refused is tried again */
#define REFUSED_TIMES    9     /* as long as the pass took */
#define DEREGISTER_MS    4000 /* the last confirmation takes two seconds at most; then it is noted */

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
		r = dead_count(dead->periodic.db, COUNT_CAP, &dead->place, &dead->waiting, err);
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

/* Behind the place something waits that was not sent already. */
static bool more_waits(const struct dead_topic *dead)
{
	int64_t sent = 0;

	for (size_t i = 0; i < dead->sent.count; i++)
		sent += dead->place.seq == 0 || is_behind(&dead->sent.items[i], &dead->place);
	return dead->waiting.behind > sent;
}

/* The pass has come to its end behind something that was refused. */
static void end_pass(struct dead_topic *dead)
{
	int64_t now_ms = clock_now_ms();
	int64_t pause_ms = (now_ms - dead->refused_ms) * REFUSED_TIMES;

	if (dead->place.seq == 0)
		return;
	if (dead->again_ms == 0)
		dead->again_ms =
			now_ms + (pause_ms > REFUSED_LEAST_MS ? pause_ms : REFUSED_LEAST_MS);
	else if (now_ms >= dead->again_ms)
		dead_rounds_restart(dead);
}

/* 0: a batch was sent. DEAD_ROUND_EMPTY: there is none to send now, or not by this instance. */
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

	(void)first; /* the limit decides how often it is logged */
	if (err->fault != FAULT_DATABASE) {
		metric_add(dead->failures, 1);
		resign(dead);
	}
	dead_rounds_drop_producer(dead);
	if (fault_log_limit_pass(&dead->fault_limit, clock_now_ms(), &held))
		log_warn("dead_topic_failed", LOG_STR("topic", topic_of(dead)),
			LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
			LOG_INT("waiting", dead->waiting.all), LOG_INT("retry_in_ms", retry_ms),
			LOG_STR("next", "dead messages wait in the table; all else goes on"),
			LOG_INT("held_back", held));
}

static void recovered(void *arg)
{
	struct dead_topic *dead = arg;

	log_info("dead_topic_back", LOG_STR("topic", topic_of(dead)));
	dead->fault_limit.passed = 0; /* the next fault is another one */
}

/* Another topic needs another producer, and may take messages that the one before refused. */
static void configured(void *arg, const struct config *config)
{
	struct dead_topic *dead = arg;

	(void)config;
	dead_rounds_drop_producer(dead);
	dead_rounds_restart(dead);
}

static int go_round(void *arg, int64_t *pause_ms, struct err *err)
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
	.round = go_round,
	.failed = failed,
	.recovered = recovered,
	.configured = configured,
	.end = end,
};

/* --- Start and end ------------------------------------------------------------------------------------- */

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
