/*
 * See dead_topic.h. A round looks every second whether something waits; who is elected sends a batch, and the next one
 * at once. What was sent and could not be noted (its row was locked) is remembered, and not sent again while this thread
 * lives; what the topic refuses is left out for a while, so that it holds up nothing behind it.
 */
#include "ingest/dead_topic.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ingest/dead_batch.h"
#include "model/meters.h"
#include "store/sidecar.h"

#define COUNT_CAP        10000
#define IDLE_MS          1000
#define PAUSE_LEAST_MS   1000
#define PAUSE_MOST_MS    30000
#define PRODUCER_KEEP_MS 60000 /* without work */
#define LOG_EVERY_MS     60000
#define LOCK_TIMEOUT_MS  1000
#define STATEMENT_MS     10000
#define GOODBYE_MS       4000 /* the last confirmation takes two seconds at most; then it is noted */

static bool is_stopping(const struct dead_topic *dead)
{
	return atomic_load(&dead->stop);
}

/* --- Rounds ------------------------------------------------------------------------------------------ */

static int look(struct dead_topic *dead, struct err *err)
{
	int r = db_open(dead->db, err);

	if (r == 0)
		r = dead_batch_note(dead, err);
	if (r == 0)
		r = dead_count(dead->db, COUNT_CAP, &dead->waiting, err);
	if (r == 0)
		metric_set(dead->waiting_gauge, (double)dead->waiting);
	return r;
}

static void resign(struct dead_topic *dead)
{
	struct err err = ERR_INIT;

	if (dead->elected && db_is_open(dead->db))
		(void)dead_resign(dead->db, dead->options.instance, &err);
	dead->elected = false;
}

/* Nothing waits but what was set aside. */
static bool has_work(struct dead_topic *dead)
{
	if (clock_now_ms() >= dead->refused_until_ms)
		dead->refused.count = 0;
	return dead->waiting > (int64_t)(dead->sent.count + dead->refused.count);
}

static int go_round(struct dead_topic *dead, struct err *err)
{
	int r = look(dead, err);

	if (r != 0)
		return r;
	if (!has_work(dead))
		return DEAD_BATCH_EMPTY;
	r = dead_elect(dead->db, dead->options.instance, err);
	if (r != 0)
		return r == DEAD_ANOTHERS ? DEAD_BATCH_EMPTY : r;
	dead->elected = true;
	if (dead->producer == NULL)
		r = dead_batch_ready(dead, err);
	return r != 0 || is_stopping(dead) ? r : dead_batch_send(dead, err);
}

static int64_t on_fault(struct dead_topic *dead, const struct err *err)
{
	int64_t held = 0;

	if (is_stopping(dead))
		return 0;
	dead->pause_ms = dead->pause_ms == 0 ? PAUSE_LEAST_MS : dead->pause_ms * 2;
	if (dead->pause_ms > PAUSE_MOST_MS)
		dead->pause_ms = PAUSE_MOST_MS;
	if (err->fault == FAULT_DATABASE) {
		metric_add(metrics_get(dead->options.metrics, METER_PG_ERRORS, db_error_class(err),
				   NULL),
			1);
	} else {
		metric_add(dead->failures, 1);
		resign(dead);
	}
	dead_batch_drop_producer(dead);
	if (limit_pass(&dead->fault_limit, clock_now_ms(), &held))
		log_warn("dead_topic_failed", LOG_STR("topic", dead->known->retry.dead_topic),
			LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
			LOG_INT("waiting", dead->waiting), LOG_INT("retry_in_ms", dead->pause_ms),
			LOG_STR("next", "dead messages wait in the table; all else goes on"),
			LOG_INT("held_back", held));
	return dead->pause_ms;
}

static void on_success(struct dead_topic *dead)
{
	if (dead->pause_ms != 0)
		log_info("dead_topic_back", LOG_STR("topic", dead->known->retry.dead_topic));
	dead->pause_ms = 0;
	dead->fault_limit.passed = 0; /* the next trouble is another one */
}

/* Another configuration: another producer, and refused messages may be welcome there. */
static void take_config(struct dead_topic *dead)
{
	const struct config *config = atomic_load(&dead->config);

	if (config == dead->known)
		return;
	dead_batch_drop_producer(dead);
	dead->refused.count = 0;
	dead->pause_ms = 0;
	dead->known = config;
}

/* Returns how long to sleep. */
static int64_t round_of(struct dead_topic *dead)
{
	struct err err = ERR_INIT;
	int r;

	take_config(dead);
	if (dead->known->retry.dead_topic[0] == '\0') {
		resign(dead);
		db_close(dead->db);
		metric_set(dead->waiting_gauge, 0);
		return PAUSE_MOST_MS;
	}
	r = go_round(dead, &err);
	if (r < 0)
		return on_fault(dead, &err);
	if (r == 0) {
		on_success(dead);
		return 0;
	}
	if (dead->producer != NULL && clock_now_ms() - dead->used_ms > PRODUCER_KEEP_MS)
		dead_batch_drop_producer(dead);
	return IDLE_MS;
}

static void *run(void *arg)
{
	struct dead_topic *dead = arg;

	while (!is_stopping(dead)) {
		int64_t pause = round_of(dead);

		if (pause > 0 && !is_stopping(dead))
			(void)wake_wait(&dead->wake, pause);
	}
	dead_batch_drop_producer(dead);
	resign(dead);
	atomic_store(&dead->ended, true);
	return NULL;
}

/* --- Life -------------------------------------------------------------------------------------------- */

static int make(struct dead_topic *dead, struct err *err)
{
	const struct dead_topic_options *options = &dead->options;
	struct db_options db;
	char name[32];
	int r;

	dead->wake = (struct wake)WAKE_INIT;
	dead->fault_limit = (struct limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->cut_limit = (struct limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->refused_limit = (struct limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->mail.stop = &dead->stop;
	dead->waiting_gauge = metrics_get(options->metrics, METER_DEAD_TOPIC_WAITING, NULL, NULL);
	dead->produced = metrics_get(options->metrics, METER_DEAD_TOPIC_PRODUCED, NULL, NULL);
	dead->failures = metrics_get(options->metrics, METER_DEAD_TOPIC_FAILURES, NULL, NULL);
	sidecar_db_options(options->config, options->instance, name, &db);
	if (db.lock_timeout_ms > LOCK_TIMEOUT_MS)
		db.lock_timeout_ms = LOCK_TIMEOUT_MS;
	db.statement_timeout_ms = STATEMENT_MS;
	r = wake_init(&dead->wake, err);
	return r != 0 ? r : db_new(&dead->db, &db, err);
}

int dead_topic_new(
	struct dead_topic **out, const struct dead_topic_options *options, struct err *err)
{
	struct dead_topic *dead = calloc(1, sizeof(*dead));
	int r;

	if (dead == NULL)
		return err_memory(err);
	dead->options = *options;
	dead->known = options->config;
	atomic_store(&dead->config, options->config);
	r = make(dead, err);
	if (r != 0) {
		dead_topic_free(dead);
		return r;
	}
	*out = dead;
	return 0;
}

int dead_topic_start(struct dead_topic *dead, struct err *err)
{
	if (pthread_create(&dead->thread, NULL, run, dead) != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the thread of the dead topic");
	dead->started = true;
	return 0;
}

void dead_topic_reload(struct dead_topic *dead, const struct config *config)
{
	atomic_store(&dead->config, config);
	wake_poke(&dead->wake);
}

void dead_topic_begin_stop(struct dead_topic *dead)
{
	if (dead == NULL || !dead->started)
		return;
	atomic_store(&dead->stop, true);
	wake_poke(&dead->wake);
}

void dead_topic_stop(struct dead_topic *dead)
{
	if (dead == NULL || !dead->started)
		return;
	dead_topic_begin_stop(dead);
	for (int waited = 0; waited < GOODBYE_MS && !atomic_load(&dead->ended); waited += 10)
		(void)usleep(10000);
	if (!atomic_load(&dead->ended))
		db_interrupt(dead->db);
	(void)pthread_join(dead->thread, NULL);
	dead->started = false;
}

void dead_topic_free(struct dead_topic *dead)
{
	if (dead == NULL)
		return;
	dead_batch_drop_producer(dead);
	db_free(dead->db);
	wake_fini(&dead->wake);
	free(dead);
}
