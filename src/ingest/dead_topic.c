/*
 * See dead_topic.h. A round looks every second whether something waits; who is elected sends a batch, and the next one
 * at once. What was sent and could not be noted (its row was locked) is remembered, and not sent again while this thread
 * lives. What the topic refuses holds up nothing behind it: the pass goes on behind it, to the end of what waits, and the
 * next pass begins at the first one again, after a minute or nine times as long as this one took.
 */
#include "ingest/dead_topic.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ingest/dead_rounds.h"
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
#define REFUSED_LEAST_MS 60000 /* before what was refused is tried again */
#define REFUSED_TIMES    9     /* as long as the pass took */
#define DEREGISTER_MS    4000 /* the last confirmation takes two seconds at most; then it is noted */

static bool is_stopping(const struct dead_topic *dead)
{
	return atomic_load(&dead->stop);
}

/* --- The connection, which is there while there is a topic ---------------------------------------------- */

static int have_db(struct dead_topic *dead, struct err *err)
{
	const struct dead_topic_options *options = &dead->options;
	struct db_options db;
	char name[32];
	int r;

	if (dead->db != NULL)
		return 0;
	sidecar_db_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	if (db.lock_timeout_ms > LOCK_TIMEOUT_MS)
		db.lock_timeout_ms = LOCK_TIMEOUT_MS;
	db.statement_timeout_ms = STATEMENT_MS;
	(void)pthread_mutex_lock(&dead->db_lock);
	r = db_new(&dead->db, &db, err);
	(void)pthread_mutex_unlock(&dead->db_lock);
	return r;
}

static void drop_db(struct dead_topic *dead)
{
	(void)pthread_mutex_lock(&dead->db_lock);
	db_free(dead->db);
	dead->db = NULL;
	(void)pthread_mutex_unlock(&dead->db_lock);
}

static void interrupt_db(struct dead_topic *dead)
{
	(void)pthread_mutex_lock(&dead->db_lock);
	if (dead->db != NULL)
		db_interrupt(dead->db);
	(void)pthread_mutex_unlock(&dead->db_lock);
}

/* --- Rounds ------------------------------------------------------------------------------------------ */

static int look(struct dead_topic *dead, struct err *err)
{
	int r = have_db(dead, err);

	if (r == 0)
		r = db_open(dead->db, err);
	if (r == 0)
		r = dead_rounds_note(dead, err);
	if (r == 0)
		r = dead_count(dead->db, COUNT_CAP, &dead->place, &dead->waiting, err);
	if (r == 0)
		metric_set(dead->waiting_gauge, (double)dead->waiting.all);
	return r;
}

static void resign(struct dead_topic *dead)
{
	struct err err = ERR_INIT;

	if (dead->elected && dead->db != NULL && db_is_open(dead->db))
		(void)dead_resign(dead->db, dead->options.instance, &err);
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
static void rest(struct dead_topic *dead)
{
	int64_t now_ms = clock_now_ms();
	int64_t pause_ms = (now_ms - dead->refused_ms) * REFUSED_TIMES;

	if (dead->place.seq == 0)
		return;
	if (dead->again_ms == 0)
		dead->again_ms =
			now_ms + (pause_ms > REFUSED_LEAST_MS ? pause_ms : REFUSED_LEAST_MS);
	else if (now_ms >= dead->again_ms)
		dead_rounds_begin_anew(dead);
}

static int go_round(struct dead_topic *dead, struct err *err)
{
	int r = look(dead, err);

	if (r != 0)
		return r;
	if (!more_waits(dead)) {
		rest(dead);
		return DEAD_ROUND_EMPTY;
	}
	r = dead_elect(dead->db, dead->options.instance, err);
	if (r != 0)
		return r == DEAD_ANOTHERS ? DEAD_ROUND_EMPTY : r;
	dead->elected = true;
	if (dead->producer == NULL)
		r = dead_rounds_ready(dead, err);
	return r != 0 || is_stopping(dead) ? r : dead_rounds_send(dead, err);
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
	dead_rounds_drop_producer(dead);
	if (fault_log_limit_pass(&dead->fault_limit, clock_now_ms(), &held))
		log_warn("dead_topic_failed", LOG_STR("topic", dead->known->retry.dead_topic),
			LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
			LOG_INT("waiting", dead->waiting.all),
			LOG_INT("retry_in_ms", dead->pause_ms),
			LOG_STR("next", "dead messages wait in the table; all else goes on"),
			LOG_INT("held_back", held));
	return dead->pause_ms;
}

static void on_success(struct dead_topic *dead)
{
	if (dead->pause_ms != 0)
		log_info("dead_topic_back", LOG_STR("topic", dead->known->retry.dead_topic));
	dead->pause_ms = 0;
	dead->fault_limit.passed = 0; /* the next fault is another one */
}

/* --- The thread -------------------------------------------------------------------------------------- */

/* Another configuration: another producer, and refused messages may be welcome there. */
static void take_config(struct dead_topic *dead)
{
	const struct config *config = atomic_load(&dead->config);

	if (config == dead->known)
		return;
	dead_rounds_drop_producer(dead);
	dead_rounds_begin_anew(dead);
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
		drop_db(dead);
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
		dead_rounds_drop_producer(dead);
	return IDLE_MS;
}

static void *run(void *arg)
{
	struct dead_topic *dead = arg;

	(void)pthread_setname_np(pthread_self(), "dead topic");
	while (!is_stopping(dead)) {
		int64_t pause = round_of(dead);

		if (pause > 0 && !is_stopping(dead))
			(void)wake_wait(&dead->wake, pause);
	}
	dead_rounds_drop_producer(dead);
	resign(dead);
	atomic_store(&dead->ended, true);
	return NULL;
}

/* --- Life -------------------------------------------------------------------------------------------- */

static int make(struct dead_topic *dead, struct err *err)
{
	const struct dead_topic_options *options = &dead->options;

	(void)pthread_mutex_init(&dead->db_lock, NULL);
	dead->wake = (struct wake)WAKE_INIT;
	dead->fault_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->cut_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->refused_limit = (struct fault_log_limit)LIMIT_INIT(1, LOG_EVERY_MS);
	dead->batch.stop = &dead->stop;
	dead->waiting_gauge = metrics_get(options->metrics, METER_DEAD_TOPIC_WAITING, NULL, NULL);
	dead->produced = metrics_get(options->metrics, METER_DEAD_TOPIC_PRODUCED, NULL, NULL);
	dead->failures = metrics_get(options->metrics, METER_DEAD_TOPIC_FAILURES, NULL, NULL);
	return wake_init(&dead->wake, err);
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
	for (int waited = 0; waited < DEREGISTER_MS && !atomic_load(&dead->ended); waited += 10)
		(void)usleep(10000);
	if (!atomic_load(&dead->ended))
		interrupt_db(dead);
	(void)pthread_join(dead->thread, NULL);
	dead->started = false;
}

void dead_topic_free(struct dead_topic *dead)
{
	if (dead == NULL)
		return;
	dead_rounds_drop_producer(dead);
	db_free(dead->db);
	(void)pthread_mutex_destroy(&dead->db_lock);
	wake_fini(&dead->wake);
	free(dead);
}
