/*
 * Implements periodic.h.
 */
#include "periodic/periodic.h"

#include "base/time/clock.h"
#include "report/meters.h"
#include "store/connection_options.h"

int periodic_init(
	struct periodic *periodic, const struct periodic_options *options, struct err *err)
{
	*periodic = (struct periodic){ .options = *options, .thread = THREAD_INIT };
	atomic_store(&periodic->config, options->config);
	(void)pthread_mutex_init(&periodic->db_lock, NULL);
	return thread_init(&periodic->thread, err);
}

void periodic_fini(struct periodic *periodic)
{
	db_free(periodic->db);
	periodic->db = NULL;
	(void)pthread_mutex_destroy(&periodic->db_lock);
	thread_fini(&periodic->thread);
}

bool periodic_is_stopping(const struct periodic *periodic)
{
	return thread_is_stopping(&periodic->thread);
}

/* --- The connection ---------------------------------------------------------------------------- */

static int make_db(struct periodic *periodic, struct err *err)
{
	const struct periodic_options *options = &periodic->options;
	struct db_options db;
	char name[32];
	int r;

	connection_options(options->config, options->instance, name, &db);
	db.metrics = options->metrics;
	if (db.lock_timeout_ms > options->task->lock_timeout_ms)
		db.lock_timeout_ms = options->task->lock_timeout_ms;
	db.statement_timeout_ms = options->task->statement_timeout_ms;
	(void)pthread_mutex_lock(&periodic->db_lock);
	r = db_new(&periodic->db, &db, err);
	(void)pthread_mutex_unlock(&periodic->db_lock);
	return r;
}

int periodic_open_db(struct periodic *periodic, struct err *err)
{
	int r = periodic->db == NULL ? make_db(periodic, err) : 0;

	return r != 0 ? r : db_open(periodic->db, err);
}

void periodic_rest(struct periodic *periodic)
{
	if (periodic->db != NULL)
		db_rest(periodic->db);
}

static void interrupt_db(struct periodic *periodic)
{
	(void)pthread_mutex_lock(&periodic->db_lock);
	if (periodic->db != NULL)
		db_interrupt(periodic->db);
	(void)pthread_mutex_unlock(&periodic->db_lock);
}

/* --- Rounds ------------------------------------------------------------------------------------ */

static void take_config(struct periodic *periodic)
{
	const struct periodic_options *options = &periodic->options;
	const struct config *config = atomic_load(&periodic->config);

	if (config == periodic->known)
		return;
	periodic->known = config;
	if (options->task->configured != NULL)
		options->task->configured(options->arg, config);
}

/* True: a line is due. The loss of a connection concerns all connections as a rule, and storing and the heartbeat have
 * lines about it. */
static bool count_fault(struct periodic *periodic, const struct err *err)
{
	const unsigned kind = err->fault == FAULT_DATABASE ? db_error_kind(err) : PG_ERROR_KINDS;
	const int64_t now_ms = clock_now_ms();

	if (kind == PG_ERROR_LOST)
		return outage_log_failed_quietly(&periodic->faults, kind, now_ms);
	return outage_log_failed(&periodic->faults, kind, now_ms);
}

static int64_t on_fault(struct periodic *periodic, const struct err *err)
{
	const struct periodic_task *task = periodic->options.task;
	int64_t pause_ms = periodic->fault_pause_ms * 2;

	if (periodic_is_stopping(periodic))
		return 0; /* an interrupted statement is not a fault */
	if (pause_ms < task->fault_pause_least_ms)
		pause_ms = task->fault_pause_least_ms;
	if (pause_ms > task->fault_pause_most_ms)
		pause_ms = task->fault_pause_most_ms;
	periodic->fault_pause_ms = pause_ms;
	if (err->fault == FAULT_DATABASE)
		metric_add(metrics_get(periodic->options.metrics, METER_PG_ERRORS,
				   db_error_class(err), NULL),
			1);
	task->failed(periodic->options.arg, err, pause_ms,
		count_fault(periodic, err) ? &periodic->faults : NULL);
	return pause_ms;
}

static void end_faults(struct periodic *periodic)
{
	struct outage_log ended;
	bool line = outage_log_ended(&periodic->faults, &ended);

	periodic->options.task->recovered(periodic->options.arg, line ? &ended : NULL);
}

/* Returns the pause in ms. */
static int64_t run_round(void *arg)
{
	struct periodic *periodic = arg;
	const struct periodic_options *options = &periodic->options;
	struct err err = ERR_INIT;
	int64_t pause_ms = 0;
	int r;

	take_config(periodic);
	r = options->task->round(options->arg, &pause_ms, &err);
	if (r < 0)
		return on_fault(periodic, &err);
	if (r == PERIODIC_IDLE)
		return pause_ms;
	if (periodic->fault_pause_ms != 0)
		end_faults(periodic);
	periodic->fault_pause_ms = 0;
	return pause_ms;
}

void periodic_run_round(struct periodic *periodic)
{
	(void)run_round(periodic);
}

/* --- The thread -------------------------------------------------------------------------------- */

static void run(void *arg)
{
	struct periodic *periodic = arg;

	thread_loop(&periodic->thread, run_round, periodic);
	if (periodic->options.task->end != NULL)
		periodic->options.task->end(periodic->options.arg);
}

int periodic_start(struct periodic *periodic, struct err *err)
{
	thread_watch(&periodic->thread);
	return thread_start(&periodic->thread, periodic->options.task->thread, run, periodic, err);
}

void periodic_reload(struct periodic *periodic, const struct config *config)
{
	atomic_store(&periodic->config, config);
	thread_wake(&periodic->thread);
}

void periodic_request_stop(struct periodic *periodic)
{
	thread_request_stop(&periodic->thread);
	if (periodic->options.task->stop_grace_ms == 0)
		interrupt_db(periodic);
}

void periodic_stop(struct periodic *periodic)
{
	periodic_request_stop(periodic);
	if (!thread_wait(&periodic->thread, periodic->options.task->stop_grace_ms))
		interrupt_db(periodic);
	thread_join(&periodic->thread);
}
