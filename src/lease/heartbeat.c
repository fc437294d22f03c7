/*
 * Implements heartbeat.h. There are three heartbeats per lease, and a statement may take a third of
 * a lease: a heartbeat that gets no answer leaves time for another one.
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
	bool deregister;        /* set before the stop is requested */
	int64_t first_pause_ms; /* before the second heartbeat */
	struct lease_clock lease_clock;
	_Atomic int64_t steady_ms;         /* of heartbeat_steady_ms() */
	atomic_bool due[HEARTBEAT_DUTIES]; /* of heartbeat_is_due() */
	struct outage_log outage;          /* consecutive heartbeats that failed */
};

static void on_fault(struct heartbeat *heartbeat, const struct err *err, int64_t retry_in_ms)
{
	const int64_t now_ms = clock_now_ms();

	lease_clock_break(&heartbeat->lease_clock);
	atomic_store(&heartbeat->steady_ms, 0);
	/* a lock timeout does not mean that the database is unreachable */
	if (db_error_kind(err) != PG_ERROR_BUSY && db_error_kind(err) != PG_ERROR_SLOW)
		atomic_store(&heartbeat->options.health->database_ok, false);
	metric_add(
		metrics_get(heartbeat->options.metrics, METER_PG_ERRORS, db_error_class(err), NULL),
		1);
	if (outage_log_failed(&heartbeat->outage, 0, now_ms))
		log_warn("heartbeat_failed", LOG_STR("error", err->text),
			LOG_INT("retry_in_ms", retry_in_ms),
			LOG_INT("lease_ms", heartbeat->options.config->worker.lease),
			LOG_STR("next", "when the lease expires, another instance may take over"),
			LOG_OUTAGE(&heartbeat->outage, now_ms));
}

/* A heartbeat that was answered after its own lease does not count, and the connection is closed,
 * because it may hold more late answers. PostgreSQL's clock is compared with the time of the
 * answer: the round trip makes the deadlines sent to handlers a little too early, never too late. */
static int on_answer(struct heartbeat *heartbeat, int64_t sent_ms,
	const struct heartbeat_answer *answer, struct err *err)
{
	int64_t now_ms = clock_now_ms();
	int64_t pg_now_ms = answer->pg_now_ms;

	if (lease_clock_answered(&heartbeat->lease_clock, sent_ms, now_ms) == HEARTBEAT_TOO_LATE) {
		db_close(heartbeat->db);
		return err_set(err, FAULT_DATABASE,
			"a heartbeat was answered after %lld ms, when its lease had expired",
			(long long)(now_ms - sent_ms));
	}
	atomic_store(&heartbeat->steady_ms,
		lease_clock_is_steady(&heartbeat->lease_clock) ? pg_now_ms : 0);
	atomic_store(heartbeat->options.pg_offset_ms, pg_now_ms - now_ms);
	/* before heartbeat_ms, which tells the thread of peers.h that they are known */
	atomic_store(&heartbeat->due[DUTY_DEAD], answer->dead);
	atomic_store(&heartbeat->due[DUTY_LACKING], answer->lacking);
	atomic_store(&heartbeat->options.health->heartbeat_ms, heartbeat->lease_clock.sent_ms);
	atomic_store(&heartbeat->options.health->database_ok, true);
	return 0;
}

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
	struct heartbeat_answer answer = { .pg_now_ms = 0 };
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
		.lease_ms = heartbeat->options.config->worker.lease,
	};
	heartbeat->options.bounds(&report.bounds, heartbeat->options.arg);
	FAULT_POINT("before_heartbeat");
	sent_ms = clock_now_ms();
	r = instance_heartbeat(heartbeat->db, heartbeat->options.instance, &report, &answer, err);
	FAULT_POINT("after_heartbeat");
	return r == 0 ? on_answer(heartbeat, sent_ms, &answer, err) : r;
}

/* One heartbeat. Returns the time to sleep, in ms. */
static int64_t run_round(void *arg)
{
	struct heartbeat *heartbeat = arg;
	int64_t began_ms = clock_now_ms();
	struct err err = ERR_INIT;
	int64_t delay;
	int r = beat(heartbeat, &err);

	if (r == HEARTBEAT_FENCED) {
		atomic_store(&heartbeat->steady_ms, 0);
		log_error("fenced", LOG_INT("instance", heartbeat->options.instance),
			LOG_STR("next", "deliveries are cancelled; this process registers as a new "
					"instance"));
		supervision_report_fenced(heartbeat->options.supervision);
		return lease_clock_interval_ms(&heartbeat->lease_clock);
	}
	if (r == 0) {
		on_success(heartbeat);
		return lease_clock_rest_ms(&heartbeat->lease_clock, clock_now_ms());
	}
	delay = backoff_delay_ms(100, lease_clock_interval_ms(&heartbeat->lease_clock),
		(int)heartbeat->outage.failures, random_u64());
	delay = lease_clock_retry_ms(&heartbeat->lease_clock, began_ms, clock_now_ms(), delay);
	on_fault(heartbeat, &err, delay);
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

	thread_pause(&heartbeat->thread, heartbeat->first_pause_ms);
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
	connection_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	if (db.statement_timeout_ms > lease_clock_interval_ms(&heartbeat->lease_clock))
		db.statement_timeout_ms = lease_clock_interval_ms(&heartbeat->lease_clock);
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

int64_t heartbeat_steady_ms(const struct heartbeat *heartbeat)
{
	return atomic_load(&heartbeat->steady_ms);
}

bool heartbeat_is_due(const struct heartbeat *heartbeat, enum heartbeat_duty duty)
{
	return atomic_load(&heartbeat->due[duty]);
}

int heartbeat_start(struct heartbeat *heartbeat, struct err *err)
{
	heartbeat->first_pause_ms = run_round(heartbeat);
	thread_watch(&heartbeat->thread);
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
