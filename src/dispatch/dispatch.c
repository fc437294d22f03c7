/*
 * The dispatch thread: start, event loop, end. In each round of the loop the input is handled: lines of handlers,
 * batches of ingest, finished jobs. Then, at most once, the scheduler delivers messages, and settler and claimer
 * give jobs to workers. A timer (TICK_MS) checks deadlines and everything else that depends on time.
 *
 * The loop must not block: PostgreSQL is for the workers, and sockets are nonblocking.
 */
#include "dispatch/dispatch.h"

#include <event2/thread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/process.h"
#include "dispatch/core.h"
#include "store/sidecar.h"

#define STOP_GRACE_MS  2000 /* how long after the deadline the thread may take to end */
#define LISTEN_BACKLOG 128
#define ACCEPT_PAUSE_S 1

static void set_timer(struct event *event, int64_t delay_ms)
{
	struct timeval in = { .tv_sec = delay_ms / 1000, .tv_usec = (delay_ms % 1000) * 1000 };

	(void)event_add(event, &in);
}

void dispatch_schedule(struct dispatch *dispatch)
{
	event_active(dispatch->schedule, EV_TIMEOUT, 0);
}

void dispatch_schedule_in(struct dispatch *dispatch, int64_t delay_ms)
{
	set_timer(dispatch->schedule, delay_ms);
}

void dispatch_linger(struct dispatch *dispatch, int64_t delay_ms)
{
	if (!event_pending(dispatch->linger, EV_TIMEOUT, NULL))
		set_timer(dispatch->linger, delay_ms);
}

bool dispatch_is_stopping(const struct dispatch *dispatch)
{
	return dispatch->phase != PHASE_RUN;
}

static void take_config(struct dispatch *dispatch, const struct config *config)
{
	dispatch->options.config = config;
	dispatch->rules = (struct retry_rules){
		.max_attempts = config->retry.max_attempts,
		.backoff_ms = config->retry.backoff,
		.backoff_max_ms = config->retry.backoff_max,
		.max_crashes = config->retry.max_crashes,
	};
}

/* ------------------------------------------------------------------ rounds */

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *dispatch = arg;

	(void)fd;
	(void)what;
	wake_clear(dispatch->wake);
	if (replay_listener_take_notice(dispatch->replay_listener)) {
		claimer_scan_soon(dispatch);
		handler_memory_exchange_soon(dispatch);
	}
	arrivals_take(dispatch);
	arrivals_take_jobs(dispatch);
	arrivals_take(dispatch);
	dispatch_schedule(dispatch);
}

static void on_schedule(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *dispatch = arg;
	int64_t now_ms = clock_now_ms();

	(void)fd;
	(void)what;
	scheduler_run(dispatch, now_ms);
	settler_run(dispatch, now_ms);
	claimer_run(dispatch, now_ms);
	settler_run(
		dispatch, now_ms); /* uses a worker that was left to the claimer and not needed */
}

static void tick_sessions(struct dispatch *dispatch, int64_t now_ms)
{
	struct session *session = TAILQ_FIRST(&dispatch->sessions);
	struct session *next;

	for (; session != NULL; session = next) {
		next = TAILQ_NEXT(session, link);
		session_tick(session, now_ms);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *dispatch = arg;
	const struct config *config = atomic_exchange(&dispatch->next_config, NULL);
	int64_t now_ms;
	size_t count;
	size_t bytes;
	size_t bytes_free;

	(void)fd;
	(void)what;
	FAULT_POINT("before_tick");
	now_ms = clock_now_ms();
	if (config != NULL)
		take_config(dispatch, config);
	atomic_store(&dispatch->options.health->dispatch_tick_ms, now_ms);
	tick_sessions(dispatch, now_ms);
	handlers_tick(dispatch, now_ms);
	dispatch->ticked_ms = now_ms;
	admission_usage(dispatch->options.admission, &count, &bytes, &bytes_free);
	metric_set(dispatch->claimed_gauge, (double)count);
	metric_set(dispatch->claimed_bytes_gauge, (double)bytes);
	arrivals_take_jobs(dispatch);
	arrivals_take(dispatch);
	entries_publish_bounds(dispatch);
	stopping_check(dispatch, now_ms);
	on_schedule(-1, 0, dispatch);
}

/* Runs the loop for a moment, so that the sockets can take the last lines (cancel). */
static void flush_sessions(struct dispatch *dispatch)
{
	struct timeval soon = { .tv_usec = 50000 };

	(void)event_del(dispatch->tick);
	(void)event_base_loopexit(dispatch->base, &soon);
	(void)event_base_dispatch(dispatch->base);
}

static void dispatch_main(void *arg)
{
	struct dispatch *dispatch = arg;

	(void)event_base_dispatch(dispatch->base);
	flush_sessions(dispatch);
}

/* ------------------------------------------------------------------ start and end */

static struct metric *series(const struct dispatch *dispatch, enum meter family)
{
	return metrics_get(dispatch->options.metrics, family, NULL, NULL);
}

static void find_series(struct dispatch *dispatch)
{
	dispatch->unknown_answers = series(dispatch, METER_UNKNOWN_ANSWERS);
	dispatch->protocol_errors = series(dispatch, METER_PROTOCOL_ERRORS);
	dispatch->claim_lost = series(dispatch, METER_CLAIM_LOST);
	dispatch->claimed_gauge = series(dispatch, METER_CLAIMED);
	dispatch->claimed_bytes_gauge = series(dispatch, METER_CLAIMED_BYTES);
	dispatch->settle_seconds = series(dispatch, METER_SETTLE);
	dispatch->claim_seconds = series(dispatch, METER_CLAIM);
	dispatch->end_to_end = series(dispatch, METER_END_TO_END);
	dispatch->set_aside_gauge =
		metrics_get(dispatch->options.metrics, METER_SET_ASIDE, "settle", NULL);
	metric_set(
		dispatch->set_aside_gauge, 0); /* an earlier instance run may have left a value */
	metric_set(metrics_get(dispatch->options.metrics, METER_SET_ASIDE, "claim", NULL), 0);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)evconnlistener_enable(arg);
}

/* Without a free descriptor accept() fails, and the connection that waits would wake the loop again at once. So the
 * listener pauses. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	const struct timeval pause = { .tv_sec = ACCEPT_PAUSE_S };
	const char *error = strerror(EVUTIL_SOCKET_ERROR());

	(void)arg;
	log_warn("accept_failed", LOG_STR("error", error),
		LOG_INT("retry_in_ms", ACCEPT_PAUSE_S * 1000));
	if (event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, on_accept_again,
		    listener, &pause) == 0)
		(void)evconnlistener_disable(listener);
}

static int make_loop(struct dispatch *dispatch, struct err *err)
{
	(void)evthread_use_pthreads();
	dispatch->base = event_base_new();
	if (dispatch->base == NULL)
		return err_memory(err);
	dispatch->schedule = event_new(dispatch->base, -1, 0, on_schedule, dispatch);
	dispatch->linger = event_new(dispatch->base, -1, 0, on_schedule, dispatch);
	dispatch->tick = event_new(dispatch->base, -1, EV_PERSIST, on_tick, dispatch);
	dispatch->woken = event_new(
		dispatch->base, dispatch->wake->fd, EV_READ | EV_PERSIST, on_woken, dispatch);
	if (dispatch->schedule == NULL || dispatch->linger == NULL || dispatch->tick == NULL ||
		dispatch->woken == NULL)
		return err_memory(err);
	(void)event_add(dispatch->woken, NULL);
	set_timer(dispatch->tick, TICK_MS);
	(void)evutil_make_socket_nonblocking(dispatch->options.listen_fd);
	dispatch->listener = evconnlistener_new(dispatch->base, session_accept, dispatch,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, LISTEN_BACKLOG,
		dispatch->options.listen_fd);
	if (dispatch->listener == NULL)
		return err_set(err, FAULT_SOCKET, "cannot listen for handlers");
	evconnlistener_set_error_cb(dispatch->listener, on_accept_error);
	dispatch->options.listen_fd = -1;
	return 0;
}

static int make_pool(struct dispatch *dispatch, struct err *err)
{
	const struct config *config = dispatch->options.config;
	char name[32];
	struct worker_options options = {
		.connections = (size_t)config->worker.connections,
		.done_wake = dispatch->wake,
		.instance = dispatch->options.instance,
	};
	int r;

	sidecar_db_options(config, dispatch->options.instance, name, &options.db);
	options.db.metrics = dispatch->options.metrics;
	r = worker_pool_new(&dispatch->pool, &options, err);
	return r != 0 ? r
		      : replay_listener_new(
				&dispatch->replay_listener, &options.db, dispatch->wake, err);
}

static int make_parts(struct dispatch *dispatch, struct err *err)
{
	int r = routing_new(&dispatch->routing, err);

	if (r == 0)
		r = protocol_parser_new(&dispatch->parser, err);
	if (r == 0)
		r = event_renderer_new(&dispatch->renderer, err);
	if (r == 0)
		r = make_loop(dispatch, err);
	if (r == 0)
		r = make_pool(dispatch, err);
	return r;
}

/* Leaves descriptors for connections to PostgreSQL and Kafka, however many handlers connect. */
static size_t sessions_most(void)
{
	size_t limit = process_descriptors();

	limit -= limit < 2UL * DESCRIPTORS_KEPT ? limit / 2 : DESCRIPTORS_KEPT;
	return limit < SESSIONS_MAX ? limit : SESSIONS_MAX;
}

int dispatch_new(struct dispatch **out, const struct dispatch_options *options, struct err *err)
{
	struct dispatch *dispatch = calloc(1, sizeof(*dispatch));
	int r;

	if (dispatch == NULL)
		return err_memory(err);
	dispatch->options = *options;
	dispatch->wake = options->wake;
	take_config(dispatch, options->config);
	TAILQ_INIT(&dispatch->born);
	STAILQ_INIT(&dispatch->arrivals);
	TAILQ_INIT(&dispatch->sessions);
	(void)pthread_mutex_init(&dispatch->heartbeat_lock, NULL);
	buf_add_str(&dispatch->names, "[]");
	buf_add_str(&dispatch->away, "[]");
	handler_memory_init(dispatch);
	dispatch->sessions_most = sessions_most();
	lanes_init(&dispatch->lanes, options->config->inbox.ordering,
		(size_t)options->config->worker.claim_batch);
	settler_init(&dispatch->settler);
	claimer_init(&dispatch->claimer);
	dispatch->max_seq = options->first_low_seq - 1;
	dispatch->refused_seq = INT64_MAX;
	entries_publish_bounds(dispatch);
	find_series(dispatch);
	r = thread_init(&dispatch->thread, err);
	if (r == 0)
		r = make_parts(dispatch, err);
	if (r != 0) {
		dispatch_free(dispatch);
		return r;
	}
	*out = dispatch;
	return 0;
}

int dispatch_start(struct dispatch *dispatch, struct err *err)
{
	return thread_start(&dispatch->thread, "dispatch", dispatch_main, dispatch, err);
}

void dispatch_bounds(struct dispatch *dispatch, struct bounds *out)
{
	(void)pthread_mutex_lock(&dispatch->heartbeat_lock);
	*out = dispatch->bounds;
	(void)pthread_mutex_unlock(&dispatch->heartbeat_lock);
}

int64_t dispatch_low_claim(const struct dispatch *dispatch)
{
	return open_claims_low(&dispatch->claimer.open);
}

static void copy_names(struct dispatch *dispatch, const struct buf *names, struct buf *out)
{
	(void)pthread_mutex_lock(&dispatch->heartbeat_lock);
	buf_add(out, names->data, names->length);
	(void)pthread_mutex_unlock(&dispatch->heartbeat_lock);
}

void dispatch_handlers(struct dispatch *dispatch, struct buf *out)
{
	copy_names(dispatch, &dispatch->names, out);
}

void dispatch_handlers_away(struct dispatch *dispatch, struct buf *out)
{
	copy_names(dispatch, &dispatch->away, out);
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
	atomic_store(&dispatch->deadline_ms, deadline_ms);
	atomic_store(&dispatch->stop, true);
	wake_poke(dispatch->wake);
}

int dispatch_finish(struct dispatch *dispatch)
{
	atomic_store(&dispatch->may_end, true);
	wake_poke(dispatch->wake);
	return end_within(
		dispatch, atomic_load(&dispatch->deadline_ms) + STOP_GRACE_MS - clock_now_ms());
}

void dispatch_reload(struct dispatch *dispatch, const struct config *config)
{
	atomic_store(&dispatch->next_config, config);
	wake_poke(dispatch->wake);
}

int dispatch_abandon(struct dispatch *dispatch)
{
	atomic_store(&dispatch->abandon, true);
	wake_poke(dispatch->wake);
	return end_within(dispatch, STOP_GRACE_MS);
}

static void free_sessions(struct dispatch *dispatch)
{
	struct session *session;

	while ((session = TAILQ_FIRST(&dispatch->sessions)) != NULL)
		session_close(session);
}

static void free_events(struct dispatch *dispatch)
{
	if (dispatch->listener != NULL)
		evconnlistener_free(dispatch->listener);
	if (dispatch->woken != NULL)
		event_free(dispatch->woken);
	if (dispatch->tick != NULL)
		event_free(dispatch->tick);
	if (dispatch->linger != NULL)
		event_free(dispatch->linger);
	if (dispatch->schedule != NULL)
		event_free(dispatch->schedule);
	if (dispatch->base != NULL)
		event_base_free(dispatch->base);
	if (dispatch->options.listen_fd >= 0)
		(void)close(dispatch->options.listen_fd);
}

void dispatch_free(struct dispatch *dispatch)
{
	if (dispatch == NULL)
		return;
	replay_listener_free(dispatch->replay_listener);
	worker_pool_free(dispatch->pool);
	dispatch->phase = PHASE_OVER;
	free_sessions(dispatch);
	arrivals_drop(dispatch);
	entries_drop_all(dispatch);
	handlers_fini(dispatch);
	free_events(dispatch);
	lanes_fini(&dispatch->lanes);
	key_holds_fini(&dispatch->key_holds);
	open_claims_fini(&dispatch->claimer.open);
	claim_cursor_fini(&dispatch->claimer.cursor);
	refused_rows_fini(&dispatch->claimer.refused);
	routing_free(dispatch->routing);
	protocol_parser_free(dispatch->parser);
	event_renderer_free(dispatch->renderer);
	buf_fini(&dispatch->rendered);
	buf_fini(&dispatch->line);
	buf_fini(&dispatch->names);
	buf_fini(&dispatch->away);
	(void)pthread_mutex_destroy(&dispatch->heartbeat_lock);
	thread_fini(&dispatch->thread);
	free(dispatch);
}
