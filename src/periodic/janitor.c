/*
 * Implements janitor.h. A round deletes one batch of each kind of row that is due; the kinds that had no more rows share a
 * transaction. A kind with more
 * rows is due again in the next round, which begins after a pause nine times as long as the round,
 * so that retention uses at most a tenth of one backend. A kind without more rows is due again
 * after a tenth of its age, within limits.
 *
 * A kind that fails stops no other one: it has its own pause, its own size of a batch and its own line
 * in the log. Rows that PostgreSQL refuses are left out, and the first of them is named.
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

#define BATCH_ROWS      1000
#define BATCH_LEAST     1
#define LOCK_TIMEOUT_MS 1000
#define STATEMENT_MS    10000
#define PAUSE_TIMES     9 /* multiple of the duration of the round: a tenth of the time is work */
#define PAUSE_LEAST_MS  10
#define IDLE_LEAST_MS   1000
#define IDLE_MOST_MS    20000 /* below the half minute after which another instance takes over */
#define ELSEWHERE_MS                                                                               \
	5000 /* until the next time to find out whether another instance still runs it */
#define SELDOM_MOST_MS    60000 /* for kinds with few rows */
#define REQUESTS_IDLE_MS  10000 /* also between two counts of the requests */
#define FAULT_LEAST_MS    1000
#define COUNTS            RETAIN_KINDS /* the turn that counts requests */
/* For each row that is refused the next walk begins later, since each try costs PostgreSQL a transaction number. */
#define REFUSED_IDLE_MS   100
#define REFUSED_MOST_MS   600000
#define SHORTER_PAUSE_MS  60000 /* time to take a shorter age back */
#define FAULT_MOST_MS     60000
#define LOG_EVERY_MS      10000
#define INSTANCES_KEPT_MS (24LL * 3600 * 1000)
#define LEFTOVERS_KEPT_MS (24LL * 3600 * 1000) /* published events of an earlier retention.outbox */

/* What a round does for one kind of rows. */
struct turn {
	int64_t *due_ms;
	int batch_rows;
	bool more;                 /* the last batch left rows that are due */
	int64_t affected;          /* since the last log line */
	int64_t fault_pause_ms;    /* 0: the last time succeeded */
	struct outage_log faults;  /* in a row */
	struct outage_log refused; /* batches with rows that were refused */
	int64_t refused_rows;      /* of this walk */
};

struct janitor {
	struct janitor_options options;
	struct periodic periodic;
	struct metric *purged;
	struct metric *dropped;
	struct metric *expired; /* requests */
	struct janitor_ages *ages;
	struct turn turns[RETAIN_KINDS + 1];
	int64_t busy_us;    /* of this round */
	int64_t soonest_ms; /* the shortest pause of a turn that failed in this round; 0: none did */
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
		[RETAIN_REQUESTS_LEASED] = 0,
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

	if (kind == RETAIN_REQUESTS || kind == RETAIN_REQUESTS_LEASED)
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

static const char *name_of(size_t turn)
{
	return turn == COUNTS ? "counts" : retain_name(turn);
}

/* --- One turn ---------------------------------------------------------------------------------- */

/* True when the fault concerns this turn only. The others need the connection, too. */
static bool is_own(const struct janitor *janitor, const struct err *err)
{
	const enum pg_error_class class = db_error_kind(err);

	return err->fault == FAULT_DATABASE && db_is_open(janitor->periodic.db) &&
	       class != PG_ERROR_LOST && class != PG_ERROR_READ_ONLY && class != PG_ERROR_RESOURCES;
}

/* After a statement timeout the next batch has fewer rows. */
static void turn_failed(
	struct janitor *janitor, size_t number, int64_t took_us, const struct err *err)
{
	struct turn *turn = &janitor->turns[number];
	const int64_t now_ms = clock_now_ms();
	int64_t pause_ms = turn->fault_pause_ms * 2;

	if (pause_ms < took_us * PAUSE_TIMES / 1000)
		pause_ms = took_us * PAUSE_TIMES / 1000;
	turn->fault_pause_ms = within(pause_ms, FAULT_LEAST_MS, FAULT_MOST_MS);
	*turn->due_ms = now_ms + turn->fault_pause_ms;
	if (janitor->soonest_ms == 0 || turn->fault_pause_ms < janitor->soonest_ms)
		janitor->soonest_ms = turn->fault_pause_ms;
	if (db_error_kind(err) == PG_ERROR_SLOW)
		turn->batch_rows = (int)within(turn->batch_rows / 2, BATCH_LEAST, BATCH_ROWS);
	metric_add(
		metrics_get(janitor->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	if (outage_log_failed(&turn->faults, db_error_kind(err), now_ms))
		log_warn("retention_failed", LOG_STR("what", name_of(number)),
			LOG_STR("error", err->text), LOG_STR("sqlstate", err->state),
			LOG_INT("retry_in_ms", turn->fault_pause_ms),
			LOG_OUTAGE(&turn->faults, now_ms));
}

static void turn_succeeded(struct janitor *janitor, size_t number)
{
	struct turn *turn = &janitor->turns[number];
	struct outage_log ended;

	if (outage_log_ended(&turn->faults, &ended))
		log_info("retention_back", LOG_STR("what", name_of(number)),
			LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	turn->fault_pause_ms = 0;
	turn->batch_rows = (int)within(turn->batch_rows * 2LL, BATCH_LEAST, BATCH_ROWS);
}

static void note_refused(
	struct janitor *janitor, enum retain_kind kind, const struct retain_done *done)
{
	struct turn *turn = &janitor->turns[kind];

	if (done->refused == 0)
		return;
	metric_add(metrics_get(janitor->options.metrics, METER_RETENTION_REFUSED, retain_name(kind),
			   NULL),
		done->refused);
	if (outage_log_failed(&turn->refused, 0, clock_now_ms()))
		log_warn("retention_refused", LOG_STR("what", retain_name(kind)),
			LOG_INT("rows", done->refused), LOG_STR("error", done->refusal.text),
			LOG_STR("next", "they stay, and are tried again in the next walk; find the "
					"foreign key or trigger that refuses them"));
}

/* One batch of each kind of a round. */
struct batches {
	struct retain_batch items[RETAIN_KINDS];
	struct retain_done done[RETAIN_KINDS];
	size_t count;
};

/* Adds the kind if it is due. */
static void add_batch(const struct janitor *janitor, enum retain_kind kind, struct batches *out)
{
	const struct turn *turn = &janitor->turns[kind];
	const struct retain_batch batch = {
		.instance = janitor->options.instance,
		.kind = kind,
		.age_ms = age_of(janitor->periodic.known, kind),
		.max_rows = turn->batch_rows,
	};

	if (batch.age_ms != CONFIG_NEVER && clock_now_ms() >= *turn->due_ms)
		out->items[out->count++] = batch;
}

/* True when the kind had more rows to do. */
static bool take_done(
	struct janitor *janitor, enum retain_kind kind, const struct retain_done *done)
{
	struct turn *turn = &janitor->turns[kind];

	turn->affected += done->affected;
	if (kind == RETAIN_PAYLOAD)
		metric_add(janitor->dropped, done->affected);
	else if (kind == RETAIN_REQUESTS)
		metric_add(janitor->expired, done->affected);
	else if (kind != RETAIN_INSTANCES && kind != RETAIN_REQUESTS_LEASED)
		metric_add(janitor->purged, done->affected);
	note_refused(janitor, kind, done);
	turn->refused_rows += done->refused;
	turn->more = done->more;
	*turn->due_ms = done->more ? 0
				   : clock_now_ms() + idle_ms(janitor->periodic.known, kind) +
					     within(turn->refused_rows * REFUSED_IDLE_MS, 0,
						     REFUSED_MOST_MS);
	if (!done->more)
		turn->refused_rows = 0;
	turn_succeeded(janitor, kind);
	return done->more;
}

/* Runs the batches in one transaction. */
static int run_batches(
	struct janitor *janitor, struct batches *batches, bool *more, struct err *err)
{
	int r;

	if (batches->count == 0)
		return 0;
	r = retain_run(janitor->periodic.db, batches->items, batches->count, batches->done, err);
	for (size_t i = 0; r == 0 && i < batches->count; i++)
		*more |= take_done(janitor, batches->items[i].kind, &batches->done[i]);
	return r;
}

static int run_batch(struct janitor *janitor, enum retain_kind kind, bool *more, struct err *err)
{
	struct batches batches = { .count = 0 };

	add_batch(janitor, kind, &batches);
	return run_batches(janitor, &batches, more, err);
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
	if (r != 0)
		return r;
	show_counts(janitor, &counts);
	turn_succeeded(janitor, COUNTS);
	return 0;
}

/* --- A round ----------------------------------------------------------------------------------- */

/* The kinds that had no more rows find few as a rule, so one transaction is enough for all of them. If it fails, each of them is still
 * due, and runs alone. */
static int run_together(struct janitor *janitor, bool *more, struct err *err)
{
	struct batches batches = { .count = 0 };
	struct err said = ERR_INIT;
	int r;

	for (size_t kind = 0; kind < RETAIN_KINDS; kind++) {
		const struct turn *turn = &janitor->turns[kind];

		if (!turn->more && turn->fault_pause_ms == 0 && turn->batch_rows == BATCH_ROWS)
			add_batch(janitor, kind, &batches);
	}
	r = run_batches(janitor, &batches, more, &said);
	if (r < 0 && is_own(janitor, &said) && !periodic_is_stopping(&janitor->periodic))
		return 0;
	*err = said;
	return r;
}

static int run_turn(struct janitor *janitor, size_t turn, bool *more, struct err *err)
{
	const int64_t began_us = clock_now_us();
	int r = turn == COUNTS ? count_requests(janitor, err) : run_batch(janitor, turn, more, err);

	if (r < 0 && is_own(janitor, err) && !periodic_is_stopping(&janitor->periodic)) {
		turn_failed(janitor, turn, clock_now_us() - began_us, err);
		return 0;
	}
	janitor->busy_us += clock_now_us() - began_us;
	return r;
}

/* Runs each turn that is due. `more`: a kind has more rows; its next batch runs in the next round. */
static int run_turns(struct janitor *janitor, bool *more, struct err *err)
{
	struct periodic *periodic = &janitor->periodic;
	bool had_more[COUNTS + 1] = { false };
	int64_t began_us;
	int r = periodic_open_db(periodic, err);

	for (int kind = 0; r == 0 && kind < RETAIN_KINDS; kind++) {
		if (janitor->ages->shorter[kind])
			r = announce(janitor, kind, err);
		had_more[kind] = janitor->turns[kind].more;
	}
	began_us = clock_now_us();
	if (r == 0)
		r = run_together(janitor, more, err);
	janitor->busy_us += clock_now_us() - began_us;
	for (size_t turn = 0; r == 0 && turn <= COUNTS && !periodic_is_stopping(periodic); turn++) {
		if (!janitor->turns[turn].more || had_more[turn])
			r = run_turn(janitor, turn, more, err);
	}
	return r;
}

/* Writes at most one line per interval; its numbers include everything since the last line. */
static void log_done(struct janitor *janitor)
{
	int64_t done[RETAIN_KINDS];
	int64_t now_ms = clock_now_ms();
	int64_t all = 0;

	for (int kind = 0; kind < RETAIN_KINDS; kind++) {
		done[kind] = janitor->turns[kind].affected;
		all += done[kind];
	}
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
		janitor->turns[kind].affected = 0;
	janitor->logged_ms = now_ms;
}

static void failed(
	void *arg, const struct err *err, int64_t retry_ms, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_warn("retention_failed", LOG_STR("what", "all"), LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state), LOG_INT("retry_in_ms", retry_ms),
			LOG_OUTAGE(line, clock_now_ms()));
}

static void recovered(void *arg, const struct outage_log *line)
{
	(void)arg;
	if (line != NULL)
		log_info("retention_back", LOG_STR("what", "all"),
			LOG_INT("failures", line->failures),
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
		janitor->turns[kind].more = false;
		janitor->ages->shorter[kind] =
			before != NULL && !same && age_of(config, kind) < age_of(before, kind);
		janitor->ages->due_ms[kind] = 0;
	}
	janitor->ages->config = config;
}

/* Another instance runs retention. */
static int leave(struct janitor *janitor, int64_t *pause_ms)
{
	show_counts(janitor, NULL);
	periodic_rest(&janitor->periodic);
	*pause_ms = within(shortest_idle_ms(janitor->periodic.known), 0, ELSEWHERE_MS);
	return PERIODIC_IDLE;
}

static int run_round(void *arg, int64_t *pause_ms, struct err *err)
{
	struct janitor *janitor = arg;
	bool more = false;
	int r;

	janitor->busy_us = 0;
	janitor->soonest_ms = 0;
	r = clock_now_ms() < atomic_load(&janitor->options.health->retained_elsewhere_ms)
		    ? RETAIN_ANOTHERS
		    : run_turns(janitor, &more, err);
	log_done(janitor);
	if (r == RETAIN_ANOTHERS)
		return leave(janitor, pause_ms);
	if (r < 0)
		return r;
	if (!more)
		*pause_ms = shortest_idle_ms(janitor->periodic.known);
	else
		*pause_ms = within(
			janitor->busy_us * PAUSE_TIMES / 1000, PAUSE_LEAST_MS, FAULT_MOST_MS);
	if (janitor->soonest_ms != 0 && janitor->soonest_ms < *pause_ms)
		*pause_ms = janitor->soonest_ms;
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
	for (size_t turn = 0; turn <= COUNTS; turn++) {
		janitor->turns[turn].batch_rows = BATCH_ROWS;
		janitor->turns[turn].due_ms =
			turn == COUNTS ? &janitor->count_due_ms : &janitor->ages->due_ms[turn];
	}
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
