/*
 * The dispatch thread: start, event loop, end. In each round of the loop the input is handled: lines of handlers,
 * batches of ingest, finished jobs. Then, at most once, the scheduler delivers messages, and settler and claimer
 * give jobs to workers (run_round). A timer (TICK_MS) checks deadlines and everything else that depends on time.
 *
 * The loop must not block: PostgreSQL is for the workers, and sockets are nonblocking.
 */
#include "dispatch/dispatch.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "dispatch/groups/handler_memory.h"
#include "dispatch/loop.h"
#include "report/meters.h"
#include "store/connection_options.h"

#define STOP_GRACE_MS 2000 /* how long after the deadline the thread may take to end */

/* ------------------------------------------------------------------ rounds */

/* Leased requests and the claimer take turns: with one idle worker, neither gets it all the time. */
static void share_workers(struct dispatch *dispatch, int64_t now_ms)
{
	if (!dispatch->table.database.last_was_leased)
		leased_run(&dispatch->sessions, now_ms);
	claimer_run(&dispatch->table, now_ms);
	leased_run(&dispatch->sessions, now_ms);
}

/* The rescue of a lost claim comes before all other jobs of the claimer. The settler runs a second time, for a worker
 * that was left to the claimer and not needed. */
static void run_round(struct dispatch *dispatch, int64_t now_ms)
{
	struct table *table = &dispatch->table;

	sessions_resume(&dispatch->sessions);
	handler_groups_update_shares(&dispatch->groups);
	scheduler_run(&dispatch->schedule, now_ms);
	sql_sessions_run(&dispatch->sql_sessions, now_ms);
	settler_run(table, now_ms);
	claimer_run_rescue(table, now_ms);
	handler_memory_run(&dispatch->groups, now_ms);
	share_workers(dispatch, now_ms);
	settler_run(table, now_ms);
	sessions_send_outputs(&dispatch->sessions);
}

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run_round(arg, clock_now_ms());
}

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *dispatch = arg;

	(void)fd;
	(void)what;
	wake_clear(dispatch->context.options.wake);
	if (worker_pool_take_notice(dispatch->table.pool)) {
		claimer_scan_soon(&dispatch->table);
		handler_groups_exchange_soon(&dispatch->groups);
	}
	arrivals_take(dispatch);
	arrivals_take_jobs(dispatch);
	arrivals_take(dispatch);
	sql_sessions_take(&dispatch->sql_sessions);
	context_request_round(&dispatch->context);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *dispatch = arg;
	const struct config *config = atomic_exchange(&dispatch->requests.next_config, NULL);
	int64_t now_ms;
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)fd;
	(void)what;
	FAULT_POINT("before_tick");
	now_ms = clock_now_ms();
	if (config != NULL) {
		dispatch->context.options.config = config;
		order_set_rules(&dispatch->order, config);
	}
	atomic_store(&dispatch->context.options.health->dispatch_tick_ms, now_ms);
	progress_note(0);
	limits_tick(&dispatch->schedule, now_ms);
	entries_end_retries(&dispatch->order, now_ms);
	handler_groups_tick(&dispatch->groups, now_ms);
	sessions_tick(&dispatch->sessions, now_ms);
	leased_tick(&dispatch->sessions, now_ms);
	admission_usage(dispatch->context.options.admission, &count, &bytes, &bytes_free);
	metric_set(dispatch->claimed_gauge, (double)count);
	metric_set(dispatch->claimed_bytes_gauge, (double)bytes);
	arrivals_take_jobs(dispatch);
	arrivals_take(dispatch);
	entries_publish_bounds(&dispatch->order);
	stopping_check(dispatch, now_ms);
	run_round(dispatch, clock_now_ms());
}

/* After its end the loop runs for another moment, so that the sockets can take the last lines (cancel). */
static void dispatch_main(void *arg)
{
	struct dispatch *dispatch = arg;
	const struct timeval soon = { .tv_usec = 50000 };

	(void)event_base_dispatch(dispatch->base);
	(void)event_del(dispatch->tick);
	(void)event_base_loopexit(dispatch->base, &soon);
	(void)event_base_dispatch(dispatch->base);
}

/* ------------------------------------------------------------------ start and end */

/* FAULT_MEMORY. */
static int make_events(struct dispatch *dispatch, struct err *err)
{
	const struct timeval period = { .tv_usec = TICK_MS * 1000L };
	struct context *context = &dispatch->context;

	(void)evthread_use_pthreads();
	dispatch->base = event_base_new();
	if (dispatch->base == NULL)
		return err_memory(err);
	context->round = event_new(dispatch->base, -1, 0, on_round, dispatch);
	context->later = event_new(dispatch->base, -1, 0, on_round, dispatch);
	dispatch->tick = event_new(dispatch->base, -1, EV_PERSIST, on_tick, dispatch);
	dispatch->woken = event_new(dispatch->base, context->options.wake->fd, EV_READ | EV_PERSIST,
		on_woken, dispatch);
	if (context->round == NULL || context->later == NULL || dispatch->tick == NULL ||
		dispatch->woken == NULL)
		return err_memory(err);
	(void)event_add(dispatch->woken, NULL);
	(void)event_add(dispatch->tick, &period);
	return 0;
}

static int make_workers(struct dispatch *dispatch, struct err *err)
{
	const struct dispatch_options *own = &dispatch->context.options;
	char name[32];
	struct worker_options options = {
		.connections = (size_t)own->config->worker.connections,
		.listens = true,
		.done_wake = own->wake,
		.instance = own->instance,
	};

	connection_options(own->config, own->instance, name, &options.db);
	options.db.metrics = own->metrics;
	return worker_pool_new(&dispatch->table.pool, &options, err);
}

/* The rooms, from the lowest to the highest. */
static int make_parts(struct dispatch *dispatch, struct err *err)
{
	struct dispatch_options *options = &dispatch->context.options;
	int r = order_init(&dispatch->order, &dispatch->context, options->first_low_seq, err);

	table_init(&dispatch->table, &dispatch->context, &dispatch->order);
	handler_groups_init(&dispatch->groups, &dispatch->order, &dispatch->table);
	if (r == 0)
		r = schedule_init(&dispatch->schedule, &dispatch->groups, err);
	if (r == 0)
		r = sessions_init(&dispatch->sessions, &dispatch->schedule, err);
	if (r == 0)
		r = make_events(dispatch, err);
	if (r == 0)
		r = sessions_listen(&dispatch->sessions, dispatch->base, options->listen_fd, err);
	if (r == 0) {
		options->listen_fd = -1; /* the listener closes it */
		r = make_workers(dispatch, err);
	}
	if (r == 0)
		r = sql_sessions_init(&dispatch->sql_sessions, &dispatch->sessions, err);
	return r;
}

int dispatch_new(struct dispatch **out, const struct dispatch_options *options, struct err *err)
{
	struct dispatch *dispatch = calloc(1, sizeof(*dispatch));
	int r;

	if (dispatch == NULL)
		return err_memory(err);
	dispatch->context.options = *options;
	dispatch->thread = (struct thread)THREAD_INIT;
	STAILQ_INIT(&dispatch->arrivals.waiting);
	STAILQ_INIT(&dispatch->arrivals.claims);
	dispatch->claimed_gauge = metrics_get(options->metrics, METER_CLAIMED, NULL, NULL);
	dispatch->claimed_bytes_gauge =
		metrics_get(options->metrics, METER_CLAIMED_BYTES, NULL, NULL);
	r = make_parts(dispatch, err);
	if (r == 0)
		r = thread_init(&dispatch->thread, err);
	if (r != 0) {
		dispatch_free(dispatch);
		return r;
	}
	*out = dispatch;
	return 0;
}

int dispatch_start(struct dispatch *dispatch, struct err *err)
{
	thread_watch(&dispatch->thread);
	return thread_start(&dispatch->thread, "dispatch", dispatch_main, dispatch, err);
}

void dispatch_bounds(struct dispatch *dispatch, struct bounds *out)
{
	entries_bounds(&dispatch->order, out);
}

int64_t dispatch_low_claim(const struct dispatch *dispatch)
{
	return open_claims_low(&dispatch->order.open_claims);
}

void dispatch_handlers(struct dispatch *dispatch, struct buf *out)
{
	handler_groups_write_names(&dispatch->groups, out);
}

void dispatch_handlers_away(struct dispatch *dispatch, struct buf *out)
{
	handler_groups_write_away(&dispatch->groups, out);
}

void dispatch_paused(struct dispatch *dispatch, struct buf *out)
{
	handler_groups_write_paused(&dispatch->groups, out);
}

/* Waits for the thread with a limit, because a library call may hang in it. It is joined only after it has ended. 1: it
 * has not ended. */
static int end_within(struct dispatch *dispatch, int64_t timeout_ms)
{
	if (!thread_wait(&dispatch->thread, timeout_ms))
		return 1;
	thread_join(&dispatch->thread);
	return 0;
}

void dispatch_begin_stop(struct dispatch *dispatch, int64_t deadline_ms)
{
	atomic_store(&dispatch->requests.deadline_ms, deadline_ms);
	atomic_store(&dispatch->requests.stop, true);
	wake_poke(dispatch->context.options.wake);
}

int dispatch_finish(struct dispatch *dispatch)
{
	atomic_store(&dispatch->requests.may_end, true);
	wake_poke(dispatch->context.options.wake);
	return end_within(dispatch,
		atomic_load(&dispatch->requests.deadline_ms) + STOP_GRACE_MS - clock_now_ms());
}

void dispatch_reload(struct dispatch *dispatch, const struct config *config)
{
	atomic_store(&dispatch->requests.next_config, config);
	wake_poke(dispatch->context.options.wake);
}

int dispatch_abandon(struct dispatch *dispatch)
{
	atomic_store(&dispatch->requests.abandon, true);
	wake_poke(dispatch->context.options.wake);
	return end_within(dispatch, STOP_GRACE_MS);
}

static void free_event(struct event *event)
{
	if (event != NULL)
		event_free(event);
}

/* From the highest room to the lowest. The workers end first, so that no job is under way. */
void dispatch_free(struct dispatch *dispatch)
{
	if (dispatch == NULL)
		return;
	table_fini(&dispatch->table);
	dispatch->context.phase = PHASE_OVER;
	sql_sessions_fini(&dispatch->sql_sessions);
	sessions_close_all(&dispatch->sessions);
	arrivals_drop(dispatch);
	order_fini(&dispatch->order);
	handler_groups_fini(&dispatch->groups);
	schedule_fini(&dispatch->schedule);
	sessions_fini(&dispatch->sessions);
	free_event(dispatch->woken);
	free_event(dispatch->tick);
	free_event(dispatch->context.later);
	free_event(dispatch->context.round);
	if (dispatch->base != NULL)
		event_base_free(dispatch->base);
	if (dispatch->context.options.listen_fd >= 0)
		(void)close(dispatch->context.options.listen_fd);
	thread_fini(&dispatch->thread);
	free(dispatch);
}
