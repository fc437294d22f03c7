/*
 * See janitor.h. A round is one batch of each kind that is due: one that had more is due again in the next
 * round, nine times as long as this one took later; the others after a tenth of the shortest age, within limits.
 */
#include "janitor/janitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wake.h"
#include "model/meters.h"
#include "store/retain.h"
#include "store/sidecar.h"

#define BATCH_ROWS        1000
#define BATCH_LEAST       10
#define LOCK_TIMEOUT_MS   1000
#define STATEMENT_MS      10000
#define PAUSE_TIMES       9 /* as long as the round took: a tenth of the time is work */
#define PAUSE_LEAST_MS    10
#define IDLE_LEAST_MS     1000
#define IDLE_MOST_MS      20000 /* below the half minute after which another instance takes over */
#define SELDOM_MOST_MS    60000 /* kinds of which there is little */
#define FAULT_LEAST_MS    1000
#define FAULT_MOST_MS     60000
#define LOG_EVERY_MS      10000
#define INSTANCES_KEPT_MS (24LL * 3600 * 1000)

struct janitor {
	struct janitor_options options;
	const struct config *_Atomic config; /* any thread: the one in force */
	const struct config *known;          /* of the last round */
	struct db *db;
	struct wake wake;
	pthread_t thread;
	bool started;
	atomic_bool stop;
	struct metric *purged;
	struct metric *dropped;
	int batch_rows;
	int64_t fault_delay_ms; /* 0 = the last round went well */
	int64_t due_ms[RETAIN_KINDS];
	int64_t affected[RETAIN_KINDS]; /* since the last log line */
	int64_t logged_ms;
};

static int64_t age_of(const struct config *config, enum retain_kind kind)
{
	bool told = config->retry.dead_topic[0] != '\0';
	const int64_t ages[RETAIN_KINDS] = {
		[RETAIN_PAYLOAD] = config->retention.payload,
		[RETAIN_PROCESSED] = config->retention.processed,
		[RETAIN_DEAD] = told ? CONFIG_NEVER : config->retention.dead,
		[RETAIN_DEAD_PRODUCED] = told ? config->retention.dead : CONFIG_NEVER,
		[RETAIN_REJECTS] = config->retention.rejects,
		[RETAIN_CONFLICTS] = config->retention.conflicts,
		[RETAIN_AUDIT] = config->retention.audit,
		[RETAIN_INSTANCES] = INSTANCES_KEPT_MS,
	};

	return ages[kind];
}

static bool is_stopping(const struct janitor *janitor)
{
	return atomic_load(&janitor->stop);
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
	if (value < least)
		return least;
	return value > most ? most : value;
}

/* After a batch of this kind found nothing more. */
static int64_t idle_ms(const struct config *config, enum retain_kind kind)
{
	bool is_many = kind == RETAIN_PROCESSED || kind == RETAIN_PAYLOAD;

	return within(
		age_of(config, kind) / 10, IDLE_LEAST_MS, is_many ? IDLE_MOST_MS : SELDOM_MOST_MS);
}

/* After a round that found nothing more. */
static int64_t shortest_idle_ms(const struct config *config)
{
	int64_t shortest = IDLE_MOST_MS;

	for (int kind = 0; kind < RETAIN_KINDS; kind++) {
		if (idle_ms(config, kind) < shortest)
			shortest = idle_ms(config, kind);
	}
	return shortest;
}

static void count(struct janitor *janitor, enum retain_kind kind, int64_t affected)
{
	janitor->affected[kind] += affected;
	if (kind == RETAIN_PAYLOAD)
		metric_add(janitor->dropped, affected);
	else if (kind != RETAIN_INSTANCES)
		metric_add(janitor->purged, affected);
}

static int run_batch(struct janitor *janitor, const struct config *config, enum retain_kind kind,
	bool *more, struct err *err)
{
	const struct retain_batch batch = {
		.instance = janitor->options.instance,
		.kind = kind,
		.age_ms = age_of(config, kind),
		.max_rows = janitor->batch_rows,
	};
	struct retain_done done;
	int r;

	if (batch.age_ms == CONFIG_NEVER || clock_now_ms() < janitor->due_ms[kind])
		return 0;
	r = retain_run(janitor->db, &batch, &done, err);
	if (r != 0)
		return r;
	count(janitor, kind, done.affected);
	janitor->due_ms[kind] = done.more ? 0 : clock_now_ms() + idle_ms(config, kind);
	*more |= done.more;
	return 0;
}

/* One batch of each kind that is due; `more`: of one of them there is more. */
static int go_round(
	struct janitor *janitor, const struct config *config, bool *more, struct err *err)
{
	int r = db_open(janitor->db, err);

	for (int kind = 0; r == 0 && kind < RETAIN_KINDS && !is_stopping(janitor); kind++)
		r = run_batch(janitor, config, kind, more, err);
	return r;
}

/* At most one line in a while; what was done meanwhile goes with the next. */
static void say(struct janitor *janitor)
{
	const int64_t *done = janitor->affected;
	int64_t now_ms = clock_now_ms();
	int64_t all = 0;

	for (int kind = 0; kind < RETAIN_KINDS; kind++)
		all += done[kind];
	if (all == 0 || (janitor->logged_ms != 0 && now_ms < janitor->logged_ms + LOG_EVERY_MS))
		return;
	log_info("retention_done", LOG_INT("payloads_dropped", done[RETAIN_PAYLOAD]),
		LOG_INT("processed_deleted", done[RETAIN_PROCESSED]),
		LOG_INT("dead_deleted", done[RETAIN_DEAD] + done[RETAIN_DEAD_PRODUCED]),
		LOG_INT("rejects_deleted", done[RETAIN_REJECTS]),
		LOG_INT("conflicts_deleted", done[RETAIN_CONFLICTS]),
		LOG_INT("audit_deleted", done[RETAIN_AUDIT]),
		LOG_INT("instances_deleted", done[RETAIN_INSTANCES]));
	for (int kind = 0; kind < RETAIN_KINDS; kind++)
		janitor->affected[kind] = 0;
	janitor->logged_ms = now_ms;
}

/* How long to wait after this fault. What took too long is tried with fewer rows. */
static int64_t on_fault(struct janitor *janitor, const struct err *err)
{
	bool first = janitor->fault_delay_ms == 0;

	if (is_stopping(janitor))
		return 0;
	if (db_error_kind(err) == PG_ERROR_SLOW)
		janitor->batch_rows = (int)within(janitor->batch_rows / 2, BATCH_LEAST, BATCH_ROWS);
	janitor->fault_delay_ms =
		within(janitor->fault_delay_ms * 2, FAULT_LEAST_MS, FAULT_MOST_MS);
	metric_add(
		metrics_get(janitor->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	if (first)
		log_warn("retention_failed", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state),
			LOG_INT("retry_in_ms", janitor->fault_delay_ms));
	return janitor->fault_delay_ms;
}

static void on_success(struct janitor *janitor)
{
	if (janitor->fault_delay_ms != 0)
		log_info("retention_back");
	janitor->fault_delay_ms = 0;
	janitor->batch_rows = (int)within(janitor->batch_rows * 2LL, BATCH_LEAST, BATCH_ROWS);
}

/* Returns how long to sleep. */
static int64_t round_of(struct janitor *janitor)
{
	const struct config *config = atomic_load(&janitor->config);
	struct err err = ERR_INIT;
	int64_t began_us = clock_now_us();
	bool more = false;
	int r;

	if (config != janitor->known)
		memset(janitor->due_ms, 0, sizeof(janitor->due_ms));
	janitor->known = config;
	r = go_round(janitor, config, &more, &err);

	say(janitor);
	if (r < 0)
		return on_fault(janitor, &err);
	on_success(janitor);
	if (r == RETAIN_ANOTHERS || !more)
		return shortest_idle_ms(config);
	return within(
		(clock_now_us() - began_us) * PAUSE_TIMES / 1000, PAUSE_LEAST_MS, FAULT_MOST_MS);
}

static void *run(void *arg)
{
	struct janitor *janitor = arg;

	(void)pthread_setname_np(pthread_self(), "janitor");
	while (!is_stopping(janitor)) {
		int64_t pause = round_of(janitor);

		if (!is_stopping(janitor))
			(void)wake_wait(&janitor->wake, pause);
	}
	return NULL;
}

int janitor_new(struct janitor **out, const struct janitor_options *options, struct err *err)
{
	struct janitor *janitor = calloc(1, sizeof(*janitor));
	struct db_options db;
	char name[32];
	int r;

	if (janitor == NULL)
		return err_memory(err);
	janitor->options = *options;
	atomic_store(&janitor->config, options->config);
	janitor->wake = (struct wake)WAKE_INIT;
	janitor->batch_rows = BATCH_ROWS;
	janitor->purged = metrics_get(options->metrics, METER_PURGED, NULL, NULL);
	janitor->dropped = metrics_get(options->metrics, METER_PAYLOADS_DROPPED, NULL, NULL);
	sidecar_db_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	db.lock_timeout_ms = within(db.lock_timeout_ms, 1, LOCK_TIMEOUT_MS);
	db.statement_timeout_ms = STATEMENT_MS;
	r = wake_init(&janitor->wake, err);
	if (r == 0)
		r = db_new(&janitor->db, &db, err);
	if (r != 0) {
		janitor_free(janitor);
		return r;
	}
	*out = janitor;
	return 0;
}

int janitor_start(struct janitor *janitor, struct err *err)
{
	if (pthread_create(&janitor->thread, NULL, run, janitor) != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the janitor thread");
	janitor->started = true;
	return 0;
}

void janitor_reload(struct janitor *janitor, const struct config *config)
{
	atomic_store(&janitor->config, config);
	wake_poke(&janitor->wake);
}

void janitor_begin_stop(struct janitor *janitor)
{
	if (janitor == NULL || !janitor->started)
		return;
	atomic_store(&janitor->stop, true);
	wake_poke(&janitor->wake);
	db_interrupt(janitor->db);
}

void janitor_stop(struct janitor *janitor)
{
	if (janitor == NULL || !janitor->started)
		return;
	janitor_begin_stop(janitor);
	(void)pthread_join(janitor->thread, NULL);
	janitor->started = false;
}

void janitor_free(struct janitor *janitor)
{
	if (janitor == NULL)
		return;
	db_free(janitor->db);
	wake_fini(&janitor->wake);
	free(janitor);
}
