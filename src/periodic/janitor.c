/*
 * Implements janitor.h. A round deletes one batch of each kind of row that is due. A kind with more
 * rows is due again in the next round, which begins after a pause nine times as long as the round,
 * so that retention uses at most a tenth of one backend. A kind without more rows is due again
 * after a tenth of its age, within limits.
 *
 * After a reload with a shorter age, a line says how many rows it affects, and the kind is due a minute later.
 */
#include "periodic/janitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "periodic/periodic.h"
#include "report/meters.h"
#include "store/periodic/retain_batch.h"

#define BATCH_ROWS        1000
#define BATCH_LEAST       10
#define LOCK_TIMEOUT_MS   1000
#define STATEMENT_MS      10000
#define PAUSE_TIMES       9 /* multiple of the duration of the round: a tenth of the time is work */
#define PAUSE_LEAST_MS    10
#define IDLE_LEAST_MS     1000
#define IDLE_MOST_MS      20000 /* below the half minute after which another instance takes over */
#define SELDOM_MOST_MS    60000 /* for kinds with few rows */
#define REQUESTS_IDLE_MS  10000 /* also between two counts of the requests */
#define FAULT_LEAST_MS    1000
#define SHORTER_PAUSE_MS  60000 /* time to take a shorter age back */
#define FAULT_MOST_MS     60000
#define LOG_EVERY_MS      10000
#define INSTANCES_KEPT_MS (24LL * 3600 * 1000)
#define LEFTOVERS_KEPT_MS (24LL * 3600 * 1000) /* published events of an earlier retention.outbox */

struct janitor {
	struct janitor_options options;
	struct periodic periodic;
	struct metric *purged;
	struct metric *dropped;
	struct metric *expired; /* requests */
	int batch_rows;
	struct janitor_ages *ages;
	int64_t affected[RETAIN_KINDS]; /* since the last log line */
	int64_t logged_ms;
	int64_t count_due_ms; /* of requests */
};

/* With 0 the relay deletes what it publishes. */
static int64_t age_of_published(const struct config *config)
{
	return config->retention.outbox == 0 ? LEFTOVERS_KEPT_MS : config->retention.outbox;
}

static int64_t age_of(const struct config *config, enum retain_kind kind)
{
	bool has_dead_topic = config->retry.dead_topic[0] != '\0';
	const int64_t ages[RETAIN_KINDS] = {
		[RETAIN_PAYLOAD] = config->retention.payload,
		[RETAIN_PROCESSED] = config->retention.processed,
		[RETAIN_DEAD] = has_dead_topic ? CONFIG_NEVER : config->retention.dead,
		[RETAIN_DEAD_PRODUCED] = has_dead_topic ? config->retention.dead : CONFIG_NEVER,
		[RETAIN_REJECTS] = config->retention.rejects,
		[RETAIN_CONFLICTS] = config->retention.conflicts,
		[RETAIN_AUDIT] = config->retention.audit,
		[RETAIN_INSTANCES] = INSTANCES_KEPT_MS,
		[RETAIN_OUTBOX] = config->outbox.enabled ? age_of_published(config) : CONFIG_NEVER,
		[RETAIN_OUTBOX_DEAD] =
			config->outbox.enabled ? config->retention.outbox_dead : CONFIG_NEVER,
		[RETAIN_REQUESTS] = 0, /* each row has its own time of expiry */
	};

	return ages[kind];
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
	if (value < least)
		return least;
	return value > most ? most : value;
}

/* The pause after a batch of this kind found no more rows. */
static int64_t idle_ms(const struct config *config, enum retain_kind kind)
{
	bool is_many = kind == RETAIN_PROCESSED || kind == RETAIN_PAYLOAD;

	if (kind == RETAIN_REQUESTS)
		return REQUESTS_IDLE_MS;
	return within(
		age_of(config, kind) / 10, IDLE_LEAST_MS, is_many ? IDLE_MOST_MS : SELDOM_MOST_MS);
}

/* The pause after a round that found no more rows. */
static int64_t shortest_idle_ms(const struct config *config)
{
	int64_t shortest = IDLE_MOST_MS;

	for (int kind = 0; kind < RETAIN_KINDS; kind++) {
		if (idle_ms(config, kind) < shortest)
			shortest = idle_ms(config, kind);
	}
	return shortest;
}

/* Counts what a shorter age will delete. Positive: not known, and `unknown` says why. */
static int preview(struct janitor *janitor, enum retain_kind kind, struct retain_preview *out,
	struct err *unknown)
{
	int r;

	if (kind == RETAIN_AUDIT)
		return -err_set(unknown, FAULT_CHECK, "a sidecar may not read the audit table");
	r = retain_preview(
		janitor->periodic.db, kind, age_of(janitor->ages->config, kind), out, unknown);
	return r < 0 && db_error_kind(unknown) != PG_ERROR_LOST ? -r : r;
}

/* Says what a shorter age will delete. */
static int announce(struct janitor *janitor, enum retain_kind kind, struct err *err)
{
	struct retain_preview found = { .rows = -1 };
	struct err unknown = ERR_INIT;
	int r = preview(janitor, kind, &found, &unknown);

	if (r < 0) {
		*err = unknown;
		return r;
	}
	log_warn("retention_shorter", LOG_STR("what", retain_name(kind)),
		LOG_INT("age_s", age_of(janitor->ages->config, kind) / 1000),
		LOG_INT("rows", found.rows), LOG_STR("more", found.more ? "true" : "false"),
		LOG_STR("not_counted", found.rows < 0 ? unknown.text : NULL),
		LOG_INT("begins_in_ms", SHORTER_PAUSE_MS),
		LOG_STR("next",
			"these rows are deleted, or lose their payloads; to keep them, restore the "
			"previous age and send SIGHUP before"));
	janitor->ages->shorter[kind] = false;
	janitor->ages->due_ms[kind] = clock_now_ms() + SHORTER_PAUSE_MS;
	return 0;
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

	if (batch.age_ms == CONFIG_NEVER || clock_now_ms() < janitor->ages->due_ms[kind])
		return 0;
	r = retain_run(janitor->periodic.db, &batch, &done, err);
	if (r != 0)
		return r;
	janitor->affected[kind] += done.affected;
	if (kind == RETAIN_PAYLOAD)
		metric_add(janitor->dropped, done.affected);
	else if (kind == RETAIN_REQUESTS)
		metric_add(janitor->expired, done.affected);
	else if (kind != RETAIN_INSTANCES)
		metric_add(janitor->purged, done.affected);
	janitor->ages->due_ms[kind] = done.more ? 0 : clock_now_ms() + idle_ms(config, kind);
	*more |= done.more;
	return 0;
}

/* Runs one batch of each kind that is due. `more`: a kind has more rows. */
static int run_batches(struct janitor *janitor, bool *more, struct err *err)
{
	struct periodic *periodic = &janitor->periodic;
	int r = periodic_open_db(periodic, err);

	for (int kind = 0; r == 0 && kind < RETAIN_KINDS; kind++) {
		if (janitor->ages->shorter[kind])
			r = announce(janitor, kind, err);
	}
	for (int kind = 0; r == 0 && kind < RETAIN_KINDS && !periodic_is_stopping(periodic); kind++)
		r = run_batch(janitor, periodic->known, kind, more, err);
	return r;
}

/* The gauges of requests. Only the elected instance counts, so that a sum over all instances is right. */
static void show_counts(struct janitor *janitor, const struct request_counts *counts)
{
	static const char *const states[] = { "COMPLETED", "PENDING", "FAILED" };
	struct metrics *metrics = janitor->options.metrics;
	const int64_t numbers[] = { counts == NULL ? 0 : counts->completed,
		counts == NULL ? 0 : counts->pending, counts == NULL ? 0 : counts->failed };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (counts == NULL)
			metrics_drop(metrics, METER_REQUESTS, states[i], NULL);
		else
			metric_set(metrics_get(metrics, METER_REQUESTS, states[i], NULL),
				(double)numbers[i]);
	}
	metric_set(metrics_get(metrics, METER_REQUESTS_LOST, NULL, NULL),
		counts == NULL ? 0.0 : (double)counts->lost);
}

/* Without the privilege, which `inboxd migrate --roles` grants and `inboxd check` misses, there are no
 * gauges; retention goes on. */
static int count_requests(struct janitor *janitor, struct err *err)
{
	struct request_counts counts;
	int r;

	if (clock_now_ms() < janitor->count_due_ms)
		return 0;
	janitor->count_due_ms = clock_now_ms() + REQUESTS_IDLE_MS;
	r = retain_count_requests(janitor->periodic.db, &counts, err);
	if (r == FAULT_DATABASE && strcmp(err->state, "42501") == 0)
		return 0;
	if (r == 0)
		show_counts(janitor, &counts);
	return r;
}

/* Writes at most one line per interval; its numbers include everything since the last line. */
static void log_done(struct janitor *janitor)
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
		LOG_INT("instances_deleted", done[RETAIN_INSTANCES]),
		LOG_INT("events_deleted", done[RETAIN_OUTBOX] + done[RETAIN_OUTBOX_DEAD]),
		LOG_INT("requests_deleted", done[RETAIN_REQUESTS]));
	for (int kind = 0; kind < RETAIN_KINDS; kind++)
		janitor->affected[kind] = 0;
	janitor->logged_ms = now_ms;
}

/* After a statement timeout the next batch has fewer rows. */
static void failed(
	void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line)
{
	struct janitor *janitor = arg;

	if (db_error_kind(err) == PG_ERROR_SLOW)
		janitor->batch_rows = (int)within(janitor->batch_rows / 2, BATCH_LEAST, BATCH_ROWS);
	if (line != NULL)
		log_warn("retention_failed", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state), LOG_INT("retry_in_ms", retry_ms),
			LOG_OUTAGE(line, clock_now_ms()));
}

static void recovered(void *arg, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_info("retention_back", LOG_INT("failures", line->failures),
			LOG_OUTAGE_ENDED(line, clock_now_ms()));
}

/* The configured ages changed, so every kind is due. A shorter age is announced first. */
static void configured(void *arg, const struct config *config)
{
	struct janitor *janitor = arg;
	const struct config *before = janitor->ages->config;
	const int64_t now_ms = clock_now_ms();

	for (int kind = 0; kind < RETAIN_KINDS; kind++) {
		bool same = before != NULL && age_of(config, kind) == age_of(before, kind);

		if (same && (janitor->ages->shorter[kind] || janitor->ages->due_ms[kind] > now_ms))
			continue;
		janitor->ages->shorter[kind] =
			before != NULL && !same && age_of(config, kind) < age_of(before, kind);
		janitor->ages->due_ms[kind] = 0;
	}
	janitor->ages->config = config;
}

static int run_round(void *arg, int64_t *pause_ms, struct err *err)
{
	struct janitor *janitor = arg;
	int64_t began_us = clock_now_us();
	bool more = false;
	int r = run_batches(janitor, &more, err);

	if (r == 0 && !periodic_is_stopping(&janitor->periodic))
		r = count_requests(janitor, err);
	else if (r == RETAIN_ANOTHERS)
		show_counts(janitor, NULL);
	log_done(janitor);
	if (r < 0)
		return r;
	janitor->batch_rows = (int)within(janitor->batch_rows * 2LL, BATCH_LEAST, BATCH_ROWS);
	if (r == RETAIN_ANOTHERS || !more)
		*pause_ms = shortest_idle_ms(janitor->periodic.known);
	else
		*pause_ms = within((clock_now_us() - began_us) * PAUSE_TIMES / 1000, PAUSE_LEAST_MS,
			FAULT_MOST_MS);
	return 0;
}

static const struct periodic_task task = {
	.thread = "janitor",
	.lock_timeout_ms = LOCK_TIMEOUT_MS,
	.statement_timeout_ms = STATEMENT_MS,
	.fault_pause_least_ms = FAULT_LEAST_MS,
	.fault_pause_most_ms = FAULT_MOST_MS,
	.round = run_round,
	.failed = failed,
	.recovered = recovered,
	.configured = configured,
};

int janitor_new(struct janitor **out, const struct janitor_options *options, struct err *err)
{
	struct janitor *janitor = calloc(1, sizeof(*janitor));
	const struct periodic_options periodic = { &task, options->config, options->metrics,
		options->instance, janitor };
	int r;

	if (janitor == NULL)
		return err_memory(err);
	janitor->options = *options;
	janitor->ages = options->ages;
	janitor->batch_rows = BATCH_ROWS;
	janitor->purged = metrics_get(options->metrics, METER_PURGED, NULL, NULL);
	janitor->dropped = metrics_get(options->metrics, METER_PAYLOADS_DROPPED, NULL, NULL);
	janitor->expired = metrics_get(options->metrics, METER_REQUESTS_EXPIRED, NULL, NULL);
	r = periodic_init(&janitor->periodic, &periodic, err);
	if (r != 0) {
		janitor_free(janitor);
		return r;
	}
	*out = janitor;
	return 0;
}

int janitor_start(struct janitor *janitor, struct err *err)
{
	return periodic_start(&janitor->periodic, err);
}

void janitor_reload(struct janitor *janitor, const struct config *config)
{
	periodic_reload(&janitor->periodic, config);
}

void janitor_begin_stop(struct janitor *janitor)
{
	if (janitor != NULL)
		periodic_request_stop(&janitor->periodic);
}

void janitor_stop(struct janitor *janitor)
{
	if (janitor != NULL)
		periodic_stop(&janitor->periodic);
}

void janitor_free(struct janitor *janitor)
{
	if (janitor == NULL)
		return;
	periodic_fini(&janitor->periodic);
	free(janitor);
}
