/*
 * Implements heartbeat.h. There are three heartbeats per lease. Another instance is fenced only
 * after the own heartbeats were on time for a whole lease over one unbroken connection: after an
 * outage of the database every instance is late, and none of them is dead (rule R4).
 *
 * A round renews the lease, fences dead instances, checks for missing handlers and rescues rows.
 * Each step has a time limit, so that the next heartbeat is on time.
 */
#include "lease/heartbeat.h"

#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/outage_log.h"
#include "base/threads/thread.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "lease/lease_clock.h"
#include "report/meters.h"
#include "store/connection_options.h"

#define DEREGISTER_MS 2000

struct heartbeat {
	struct heartbeat_options options;
	struct db *db;
	struct thread thread;
	bool deregister; /* set before the stop is requested */
	struct lease_clock lease_clock;
	bool is_first_round;      /* true only in the first round */
	struct outage_log outage; /* consecutive rounds with a fault */
	int missed;               /* consecutive heartbeats that failed */
};

/* A fault behind the heartbeat, for example of the rescue, does not mean that the database is unreachable or that the
 * next heartbeat is late. */
static void on_fault(
	struct heartbeat *heartbeat, bool beaten, const struct err *err, int64_t retry_in_ms)
{
	const int64_t now_ms = clock_now_ms();

	if (!beaten || !db_is_open(heartbeat->db)) {
		lease_clock_break(&heartbeat->lease_clock);
		/* nor does a lock timeout */
		if (db_error_kind(err) != PG_ERROR_BUSY && db_error_kind(err) != PG_ERROR_SLOW)
			atomic_store(&heartbeat->options.health->database_ok, false);
	}
	metric_add(
		metrics_get(heartbeat->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	if (outage_log_failed(&heartbeat->outage, beaten ? 1 : 0, now_ms))
		log_warn("heartbeat_failed", LOG_STR("error", err->text),
			LOG_INT("retry_in_ms", retry_in_ms),
			LOG_INT("lease_ms", heartbeat->options.config->worker.lease),
			LOG_STR("next",
				beaten ? "the lease is renewed; fencing, the search for missing "
					 "handlers and the rescue are tried again"
				       : "when the lease expires, another instance may "
					 "take over"),
			LOG_OUTAGE(&heartbeat->outage, now_ms));
}

/* A heartbeat that was answered after its own lease does not count, and the connection is closed,
 * because it may hold more late answers. PostgreSQL's clock is compared with the time of the
 * answer: the round trip makes the deadlines sent to handlers a little too early, never too late. */
static int on_answer(
	struct heartbeat *heartbeat, int64_t sent_ms, int64_t pg_now_ms, struct err *err)
{
	int64_t now_ms = clock_now_ms();

	if (lease_clock_answered(&heartbeat->lease_clock, sent_ms, now_ms) == HEARTBEAT_TOO_LATE) {
		db_close(heartbeat->db);
		return err_set(err, FAULT_DATABASE,
			"a heartbeat was answered after %lld ms, when its lease had expired",
			(long long)(now_ms - sent_ms));
	}
	atomic_store(heartbeat->options.pg_offset_ms, pg_now_ms - now_ms);
	atomic_store(&heartbeat->options.health->heartbeat_ms, heartbeat->lease_clock.sent_ms);
	atomic_store(&heartbeat->options.health->database_ok, true);
	return 0;
}

/* All steps of a round have succeeded. */
static void on_success(struct heartbeat *heartbeat)
{
	struct outage_log ended;

	if (outage_log_ended(&heartbeat->outage, &ended))
		log_info("heartbeat_back", LOG_INT("failed", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
}

/* Reads the bounds before the statement is sent. A bound may be too low but never too high, because
 * a rescue does not find rows below it (rule R3). */
static int beat(struct heartbeat *heartbeat, struct err *err)
{
	CLEANUP(buf_fini) struct buf handlers = BUF_INIT;
	struct heartbeat_report report;
	int64_t pg_now_ms = 0;
	int64_t sent_ms;
	int r = db_open(heartbeat->db, err);

	if (r != 0)
		return r;
	heartbeat->options.handlers(&handlers, heartbeat->options.arg);
	if (!buf_ok(&handlers))
		return err_memory(err);
	report = (struct heartbeat_report){
		.low_claim = heartbeat->options.low_claim(heartbeat->options.arg),
		.handlers = { handlers.data, handlers.length },
	};
	heartbeat->options.bounds(&report.bounds, heartbeat->options.arg);
	FAULT_POINT("before_heartbeat");
	sent_ms = clock_now_ms();
	r = instance_heartbeat(
		heartbeat->db, heartbeat->options.instance, &report, &pg_now_ms, err);
	FAULT_POINT("after_heartbeat");
	return r == 0 ? on_answer(heartbeat, sent_ms, pg_now_ms, err) : r;
}

static int fence_expired(struct heartbeat *heartbeat, struct err *err)
{
	struct fencing fencing = {
		.host_id = heartbeat->is_first_round ? heartbeat->options.host_id : "",
		.earlier = heartbeat->is_first_round ? heartbeat->options.earlier : 0,
		.until_ms = heartbeat->is_first_round
				    ? heartbeat->lease_clock.sent_ms +
					      lease_clock_interval_ms(&heartbeat->lease_clock)
				    : 0,
		.lease_ms = heartbeat->options.config->worker.lease,
		.fence_expired = lease_clock_is_steady(&heartbeat->lease_clock),
	};
	int fenced = 0;
	int r;

	r = instance_fence(heartbeat->db, heartbeat->options.instance, &fencing, &fenced, err);
	if (r != 0)
		return r;
	if (fenced > 0) {
		FAULT_POINT("after_fence");
		log_warn("instances_fenced", LOG_INT("count", fenced),
			LOG_STR("next", "their messages are set to waiting"));
	}
	return 0;
}

/* Decides whether this instance must leave the group because a handler is missing (rule R16);
 * ingest acts on it. */
static int check_handlers(struct heartbeat *heartbeat, struct err *err)
{
	const struct config *config = heartbeat->options.config;
	const struct absence_limits limits = {
		.lease_ms = config->worker.lease,
		.absence_ms = config->inbox.handler_absence,
	};
	struct absence absence;
	int r;

	if (config->inbox.handler_absence == CONFIG_NEVER)
		return 0;
	r = instance_absence(heartbeat->db, heartbeat->options.instance, &limits, &absence, err);
	if (r != 0)
		return r;
	if (absence.away != atomic_exchange(&heartbeat->options.health->away, absence.away)) {
		if (absence.away)
			log_warn("handler_lacking", LOG_STR("handlers", absence.lacking),
				LOG_STR("next",
					"this instance leaves the group to members that have these "
					"handlers; connect them here to join again"));
		else
			log_info("handler_missing_resolved");
	}
	return 0;
}

/* Rescues rows for as long as the next heartbeat may wait; the rest follows in the next round,
 * without a pause. */
static int rescue(struct heartbeat *heartbeat, struct err *err)
{
	const struct rescue_bounds bounds = {
		.stop = &heartbeat->thread.stop,
		.until_ms = heartbeat->lease_clock.sent_ms +
			    lease_clock_interval_ms(&heartbeat->lease_clock),
	};
	int64_t rescued = 0;
	int r;

	*err = (struct err)ERR_INIT;
	r = instance_rescue(heartbeat->db, &bounds, &rescued, err);

	if (rescued > 0) {
		metric_add(metrics_get(heartbeat->options.metrics, METER_RESCUED, NULL, NULL),
			rescued);
		log_info("messages_rescued", LOG_INT("rows", rescued));
	}
	if (r >= 0 && err->fault != 0)
		log_warn("rescue_refused", LOG_STR("error", err->text),
			LOG_STR("sqlstate", err->state),
			LOG_STR("next", "the other rows are given back; this one is tried again "
					"with the next heartbeat"));
	return r;
}

/* Counts faults of the heartbeat apart from those of the steps behind it, so that the first one is tried again at once. The pause
 * after a step ends when the next heartbeat is due, although the step has taken time. */
static int64_t pause_after_fault(struct heartbeat *heartbeat, bool beaten)
{
	int64_t interval_ms = lease_clock_interval_ms(&heartbeat->lease_clock);
	int64_t rest_ms = lease_clock_rest_ms(&heartbeat->lease_clock, clock_now_ms());
	int before = beaten ? (int)heartbeat->outage.failures : heartbeat->missed++;
	int64_t delay = backoff_delay_ms(100, interval_ms, before, random_u64());

	return beaten && delay > rest_ms ? rest_ms : delay;
}

/* One round. Returns the time to sleep, in ms. */
static int64_t run_round(void *arg)
{
	struct heartbeat *heartbeat = arg;
	int64_t interval_ms = lease_clock_interval_ms(&heartbeat->lease_clock);
	struct err err = ERR_INIT;
	bool beaten;
	int64_t delay;
	int r = beat(heartbeat, &err);

	beaten = r == 0;
	if (beaten)
		heartbeat->missed = 0;
	if (r == HEARTBEAT_FENCED) {
		log_error("fenced", LOG_INT("instance", heartbeat->options.instance),
			LOG_STR("next", "deliveries are cancelled; this process registers as a new "
					"instance"));
		supervision_report_fenced(heartbeat->options.supervision);
		return interval_ms;
	}
	if (r == 0)
		r = fence_expired(heartbeat, &err);
	if (r == 0)
		r = check_handlers(heartbeat, &err);
	if (r == 0)
		r = rescue(heartbeat, &err);
	if (r >= 0) {
		on_success(heartbeat);
		return r == RESCUE_MORE ? 0 : interval_ms;
	}
	delay = pause_after_fault(heartbeat, beaten);
	on_fault(heartbeat, beaten, &err, delay);
	return delay;
}

/* Runs only after everything is settled, because other instances treat a stopped instance as gone
 * at once. */
static void deregister(struct heartbeat *heartbeat)
{
	struct err err = ERR_INIT;

	FAULT_POINT("before_deregister");
	if (db_open(heartbeat->db, &err) != 0 ||
		instance_stop(heartbeat->db, heartbeat->options.instance, &err) != 0)
		log_warn("deregister_failed", LOG_STR("error", err.text),
			LOG_STR("next", "another instance fences this one when its lease expires"));
}

static void run(void *arg)
{
	struct heartbeat *heartbeat = arg;

	thread_loop(&heartbeat->thread, run_round, heartbeat);
	if (heartbeat->deregister)
		deregister(heartbeat);
	FAULT_POINT("after_deregister");
}

int heartbeat_new(struct heartbeat **out, const struct heartbeat_options *options, struct err *err)
{
	struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
	struct db_options db;
	char name[32];
	int r;

	if (heartbeat == NULL)
		return err_memory(err);
	heartbeat->options = *options;
	heartbeat->lease_clock.lease_ms = options->config->worker.lease;
	atomic_store(&options->health->away, false);
	connection_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	r = thread_init(&heartbeat->thread, err);
	if (r == 0)
		r = db_new(&heartbeat->db, &db, err);
	if (r != 0) {
		heartbeat_free(heartbeat);
		return r;
	}
	*out = heartbeat;
	return 0;
}

void heartbeat_fence_earlier(struct heartbeat *heartbeat)
{
	heartbeat->is_first_round = true;
	(void)run_round(heartbeat);
	heartbeat->is_first_round = false;
}

int heartbeat_start(struct heartbeat *heartbeat, struct err *err)
{
	return thread_start(&heartbeat->thread, "heartbeat", run, heartbeat, err);
}

void heartbeat_stop(struct heartbeat *heartbeat, bool deregister)
{
	if (heartbeat == NULL)
		return;
	heartbeat->deregister = deregister;
	thread_request_stop(&heartbeat->thread);
	if (!deregister)
		db_interrupt(heartbeat->db);
	/* the last statement may take a moment, but not the whole statement timeout */
	if (!thread_wait(&heartbeat->thread, DEREGISTER_MS))
		db_interrupt(heartbeat->db);
	thread_join(&heartbeat->thread);
}

void heartbeat_free(struct heartbeat *heartbeat)
{
	if (heartbeat == NULL)
		return;
	db_free(heartbeat->db);
	thread_fini(&heartbeat->thread);
	free(heartbeat);
}
