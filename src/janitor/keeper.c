/*
 * See keeper.h. Three heartbeats a lease. Other instances are judged only after our own heartbeats
 * were on time for a whole lease over one unbroken connection: after an outage of the database
 * everybody is late and nobody is dead (rule R4).
 */
#include "janitor/keeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "janitor/beats.h"
#include "model/meters.h"
#include "store/sidecar.h"

#define GOODBYE_MS 2000

struct keeper {
	struct keeper_options options;
	struct db *db;
	struct wake wake;
	pthread_t thread;
	bool started;
	atomic_bool stop;
	bool goodbye;
	atomic_bool ended;
	struct beats beats;
	bool settles; /* the first round */
	int faults;   /* in a row */
};

static void on_fault(struct keeper *keeper, const struct err *err, int64_t retry_in_ms)
{
	beats_break(&keeper->beats);
	/* A lock in the way is no database that is away. */
	if (db_error_kind(err) != TROUBLE_BUSY && db_error_kind(err) != TROUBLE_SLOW)
		atomic_store(&keeper->options.health->database_ok, false);
	metric_add(metrics_get(keeper->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	if (keeper->faults++ == 0)
		log_warn("heartbeat_failed", LOG_STR("error", err->text),
			LOG_INT("retry_in_ms", retry_in_ms),
			LOG_INT("lease_ms", keeper->options.config->worker.lease),
			LOG_STR("next", "beyond the lease another instance may take over"));
}

/* A connection that answers so late has more such answers in it: it is given up. PostgreSQL's clock is compared
 * with the moment of the answer: what the answer took makes a deadline that handlers are told too early, never
 * too late. */
static int on_answer(struct keeper *keeper, int64_t sent_ms, int64_t pg_now_ms, struct err *err)
{
	int64_t now_ms = clock_now_ms();

	if (beats_answered(&keeper->beats, sent_ms, now_ms) == BEAT_TOO_LATE) {
		db_close(keeper->db);
		return err_set(err, FAULT_DATABASE,
			"a heartbeat was answered after %lld ms, when its lease was over",
			(long long)(now_ms - sent_ms));
	}
	atomic_store(keeper->options.pg_offset_ms, pg_now_ms - now_ms);
	atomic_store(&keeper->options.health->heartbeat_ms, keeper->beats.sent_ms);
	atomic_store(&keeper->options.health->database_ok, true);
	if (keeper->faults > 0)
		log_info("heartbeat_back", LOG_INT("failed", keeper->faults));
	keeper->faults = 0;
	return 0;
}

static int beat(struct keeper *keeper, struct err *err)
{
	CLEANUP(buf_fini) struct buf handlers = BUF_INIT;
	struct heartbeat heartbeat;
	int64_t pg_now_ms = 0;
	int64_t sent_ms;
	int r = db_open(keeper->db, err);

	if (r != 0)
		return r;
	keeper->options.handlers(&handlers, keeper->options.arg);
	if (!buf_ok(&handlers))
		return err_memory(err);
	heartbeat = (struct heartbeat){
		.low_claim = keeper->options.low_claim(keeper->options.arg),
		.handlers = { handlers.data, handlers.length },
	};
	keeper->options.bounds(&heartbeat.bounds, keeper->options.arg);
	FAULT_POINT("before_heartbeat");
	sent_ms = clock_now_ms();
	r = instance_heartbeat(keeper->db, keeper->options.instance, &heartbeat, &pg_now_ms, err);
	FAULT_POINT("after_heartbeat");
	return r == 0 ? on_answer(keeper, sent_ms, pg_now_ms, err) : r;
}

static int judge(struct keeper *keeper, struct err *err)
{
	struct fencing fencing = {
		.place = keeper->settles ? keeper->options.place : "",
		.earlier = keeper->settles ? keeper->options.earlier : 0,
		.until_ms = keeper->settles
				    ? keeper->beats.sent_ms + beats_interval_ms(&keeper->beats)
				    : 0,
		.lease_ms = keeper->options.config->worker.lease,
		.judge_leases = beats_are_steady(&keeper->beats),
	};
	int fenced = 0;
	int r;

	r = instance_fence(keeper->db, keeper->options.instance, &fencing, &fenced, err);
	if (r != 0)
		return r;
	if (fenced > 0) {
		FAULT_POINT("after_fence");
		log_warn("instances_fenced", LOG_INT("count", fenced),
			LOG_STR("next", "their messages go back to waiting"));
	}
	return 0;
}

/* Whether to be out of the group for want of a handler (rule R16); ingest acts on it. */
static int look_for_handlers(struct keeper *keeper, struct err *err)
{
	const struct config *config = keeper->options.config;
	const struct absence_limits limits = {
		.lease_ms = config->worker.lease,
		.absence_ms = config->inbox.handler_absence,
	};
	struct absence absence;
	int r;

	if (config->inbox.handler_absence == CONFIG_NEVER)
		return 0;
	r = instance_absence(keeper->db, keeper->options.instance, &limits, &absence, err);
	if (r != 0)
		return r;
	if (absence.away != atomic_exchange(&keeper->options.health->away, absence.away)) {
		if (absence.away)
			log_warn("handler_lacking", LOG_STR("handlers", absence.lacking),
				LOG_STR("next", "the group is left to the members that have them; "
						"connect them here to come back"));
		else
			log_info("handler_lacking_over");
	}
	return 0;
}

/* As long as a heartbeat may wait: what is left is the next round's, at once. */
static int rescue(struct keeper *keeper, struct err *err)
{
	const struct rescue_bounds bounds = {
		.stop = &keeper->stop,
		.until_ms = keeper->beats.sent_ms + beats_interval_ms(&keeper->beats),
	};
	int64_t rescued = 0;
	int r;

	*err = (struct err)ERR_INIT;
	r = instance_rescue(keeper->db, &bounds, &rescued, err);

	if (rescued > 0) {
		metric_add(
			metrics_get(keeper->options.metrics, METER_RESCUED, NULL, NULL), rescued);
		log_info("messages_rescued", LOG_INT("rows", rescued));
	}
	if (r >= 0 && err->fault != 0)
		log_warn("rescue_refused", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state),
			LOG_STR("next", "the others are given back; this one is tried again with "
					"the next heartbeat"));
	return r;
}

/* One round; returns how long to sleep. */
static int64_t round_of(struct keeper *keeper)
{
	int64_t interval_ms = beats_interval_ms(&keeper->beats);
	struct err err = ERR_INIT;
	int64_t delay;
	int r = beat(keeper, &err);

	if (r == HEARTBEAT_FENCED) {
		log_error("fenced", LOG_INT("instance", keeper->options.instance),
			LOG_STR("next", "deliveries are cancelled; this sidecar starts anew with a "
					"new id"));
		supervision_report_fenced(keeper->options.supervision);
		return interval_ms;
	}
	if (r == 0)
		r = judge(keeper, &err);
	if (r == 0)
		r = look_for_handlers(keeper, &err);
	if (r == 0)
		r = rescue(keeper, &err);
	if (r >= 0)
		return r == RESCUE_MORE ? 0 : interval_ms;
	delay = backoff_delay_ms(100, interval_ms, keeper->faults, random_u64());
	on_fault(keeper, &err, delay);
	return delay;
}

static void say_goodbye(struct keeper *keeper)
{
	struct err err = ERR_INIT;

	FAULT_POINT("before_goodbye");
	if (db_open(keeper->db, &err) != 0 ||
		instance_stop(keeper->db, keeper->options.instance, &err) != 0)
		log_warn("goodbye_failed", LOG_STR("error", err.text),
			LOG_STR("next", "another instance declares this one dead after its lease"));
}

static void *run(void *arg)
{
	struct keeper *keeper = arg;

	(void)pthread_setname_np(pthread_self(), "keeper");
	while (!atomic_load(&keeper->stop)) {
		int64_t pause = round_of(keeper);

		if (pause > 0 && !atomic_load(&keeper->stop))
			(void)wake_wait(&keeper->wake, pause);
	}
	if (keeper->goodbye)
		say_goodbye(keeper);
	FAULT_POINT("after_goodbye");
	atomic_store(&keeper->ended, true);
	return NULL;
}

int keeper_new(struct keeper **out, const struct keeper_options *options, struct err *err)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	struct db_options db;
	char name[32];
	int r;

	if (keeper == NULL)
		return err_memory(err);
	keeper->options = *options;
	keeper->beats.lease_ms = options->config->worker.lease;
	atomic_store(&options->health->away, false);
	keeper->wake = (struct wake)WAKE_INIT;
	sidecar_db_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	r = wake_init(&keeper->wake, err);
	if (r == 0)
		r = db_new(&keeper->db, &db, err);
	if (r != 0) {
		keeper_free(keeper);
		return r;
	}
	*out = keeper;
	return 0;
}

void keeper_settle_past(struct keeper *keeper)
{
	keeper->settles = true;
	(void)round_of(keeper);
	keeper->settles = false;
}

int keeper_start(struct keeper *keeper, struct err *err)
{
	if (pthread_create(&keeper->thread, NULL, run, keeper) != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the keeper thread");
	keeper->started = true;
	return 0;
}

void keeper_stop(struct keeper *keeper, bool goodbye)
{
	if (keeper == NULL || !keeper->started)
		return;
	keeper->goodbye = goodbye;
	atomic_store(&keeper->stop, true);
	wake_poke(&keeper->wake);
	if (!goodbye)
		db_interrupt(keeper->db);
	/* The last statement may take a moment, not the statement timeout. */
	for (int waited = 0; waited < GOODBYE_MS && !atomic_load(&keeper->ended); waited += 10)
		(void)usleep(10000);
	if (!atomic_load(&keeper->ended))
		db_interrupt(keeper->db);
	(void)pthread_join(keeper->thread, NULL);
	keeper->started = false;
}

void keeper_free(struct keeper *keeper)
{
	if (keeper == NULL)
		return;
	db_free(keeper->db);
	wake_fini(&keeper->wake);
	free(keeper);
}
