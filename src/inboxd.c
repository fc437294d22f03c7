/*
 * See inboxd.h. What lives as long as the process (signals, metrics, HTTP, the socket lock) is apart
 * from an incarnation: everything that stands and falls with one instance id. A sidecar that finds
 * itself fenced ends its incarnation without settling anything and begins another with a new id
 * (rule R2).
 */
#include "inboxd.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/http.h"
#include "admin/notify.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "dispatch/dispatch.h"
#include "dispatch/socket.h"
#include "ingest/ingest.h"
#include "janitor/keeper.h"
#include "model/handover.h"
#include "model/meters.h"
#include "store/instance.h"
#include "store/migrate.h"
#include "store/sidecar.h"

#define HANDOVERS      256  /* batches on their way from ingest to dispatch */
#define WATCH_MS       1000
#define RECONNECT_MS   200
#define RECONNECT_MAX  5000
#define INGEST_SHARE   2    /* of the shutdown timeout: what ingest may take of it */

/* What lives as long as the process. */
struct daemon {
	struct inboxd_options options;
	const struct config *config;    /* the one in force */
	struct config *reloaded[64];    /* kept until the end: threads may still read one */
	size_t reloads;
	struct metrics *metrics;
	struct health health;
	struct http *http;
	struct supervision supervision;
	struct socket_lock lock;
	pthread_t signal_thread;
	bool signals_started;
	atomic_bool stop;
	atomic_bool reload;
	_Atomic int64_t pg_offset_ms;
	_Atomic int32_t instance;
	pthread_mutex_t shown_lock;
	struct dispatch *shown;         /* under shown_lock */
	int64_t started_ms;
};

/* What stands and falls with one instance id. */
struct incarnation {
	struct instance instance;
	struct gate *gate;
	struct queue *handovers;
	struct wake wake;
	struct dispatch *dispatch;
	struct ingest *ingest;
	struct keeper *keeper;
};

/* ------------------------------------------------------------------ signals */

static sigset_t our_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR2); /* ends the thread */
	return set;
}

static void on_stop_signal(struct daemon *daemon, int number)
{
	atomic_store(&daemon->health.stopping, true); /* from here on nothing new is delivered */
	if (atomic_exchange(&daemon->stop, true)) {
		log_warn("stopped_at_once", LOG_INT("signal", number),
			LOG_STR("next", "what was delivered goes back after the lease or at the next start"));
		_exit(0);
	}
	log_info("stopping", LOG_INT("signal", number),
		LOG_STR("next", "a second signal ends the process at once"));
	wake_poke(&daemon->supervision.wake);
}

static void *watch_signals(void *arg)
{
	struct daemon *daemon = arg;
	sigset_t set = our_signals();
	int number = 0;

	while (sigwait(&set, &number) == 0 && number != SIGUSR2) {
		if (number == SIGHUP) {
			atomic_store(&daemon->reload, true);
			wake_poke(&daemon->supervision.wake);
		} else {
			on_stop_signal(daemon, number);
		}
	}
	return NULL;
}

static int start_signals(struct daemon *daemon, struct err *err)
{
	sigset_t set = our_signals();

	(void)signal(SIGPIPE, SIG_IGN);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* inherited by every thread */
	if (pthread_create(&daemon->signal_thread, NULL, watch_signals, daemon) != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the signal thread");
	daemon->signals_started = true;
	return 0;
}

static void end_signals(struct daemon *daemon)
{
	if (!daemon->signals_started)
		return;
	(void)pthread_kill(daemon->signal_thread, SIGUSR2);
	(void)pthread_join(daemon->signal_thread, NULL);
}

/* ------------------------------------------------------------------ what /status says */

/* Whom /status asks for handlers; NULL between two incarnations. */
static void show(struct daemon *daemon, struct dispatch *dispatch)
{
	(void)pthread_mutex_lock(&daemon->shown_lock);
	daemon->shown = dispatch;
	(void)pthread_mutex_unlock(&daemon->shown_lock);
}

static void add_handlers(struct daemon *daemon, struct buf *json)
{
	(void)pthread_mutex_lock(&daemon->shown_lock);
	if (daemon->shown != NULL)
		dispatch_handlers(daemon->shown, json);
	else
		buf_add_str(json, "[]");
	(void)pthread_mutex_unlock(&daemon->shown_lock);
}

static void add_status(struct buf *json, void *arg)
{
	struct daemon *daemon = arg;
	const struct health *health = &daemon->health;

	buf_addf(json, "{\"version\":\"%s\",\"instance\":%d,\"uptime_s\":%lld", INBOXD_VERSION,
		atomic_load(&daemon->instance),
		(long long)(clock_now_ms() - daemon->started_ms) / 1000);
	buf_addf(json, ",\"database_ok\":%s,\"broker_ok\":%s,\"group_joined\":%s,\"stopping\":%s",
		atomic_load(&health->database_ok) ? "true" : "false",
		atomic_load(&health->broker_ok) ? "true" : "false",
		atomic_load(&health->group_joined) ? "true" : "false",
		atomic_load(&health->stopping) ? "true" : "false");
	buf_addf(json, ",\"claimed\":%.0f,\"waiting\":%.0f,\"dead\":%.0f,\"unrouted\":%.0f,\"handlers\":",
		metric_value(metrics_get(daemon->metrics, METER_CLAIMED, NULL, NULL)),
		metric_value(metrics_get(daemon->metrics, METER_WAITING, NULL, NULL)),
		metric_value(metrics_get(daemon->metrics, METER_DEAD, NULL, NULL)),
		metric_value(metrics_get(daemon->metrics, METER_UNROUTED, NULL, NULL)));
	add_handlers(daemon, json);
	buf_add_char(json, '}');
}

static int start_http(struct daemon *daemon, struct err *err)
{
	struct http_options options = {
		.listen = daemon->config->http.listen,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.lease_ms = daemon->config->worker.lease,
		.status = add_status,
		.status_arg = daemon,
	};

	return options.listen[0] == '\0' ? 0 : http_start(&daemon->http, &options, err);
}

/* ------------------------------------------------------------------ the database at the start */

/* Wrong user, password, database, version or rights: no waiting mends that. */
static bool is_final(const struct err *err)
{
	static const char *const classes[] = { "28", "3D", "42", "0A", "3F" };

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strncmp(err->state, classes[i], 2) == 0)
			return true;
	}
	return err->fault != FAULT_DATABASE;
}

static int check_schema(struct db *db, const struct daemon *daemon, struct err *err)
{
	int found = 0;
	int applied = 0;
	int r;

	r = migrate_check(db, &found, err);
	if (r <= 0)
		return r;
	if (daemon->options.migrate && r != SCHEMA_NEWER) {
		r = migrate_run(db, &applied, err);
		if (r == 0 && applied > 0)
			log_info("migrated", LOG_INT("applied", applied),
				LOG_INT("version", migrate_latest()));
		return r;
	}
	(void)err_set(err, FAULT_DATABASE,
		r == SCHEMA_NEWER ? "schema \"%s\" has version %d, newer than this inboxd knows (%d): run a newer inboxd"
				  : "schema \"%s\" has version %d, this inboxd needs %d: run `inboxd migrate`, or start with `inboxd run --migrate`",
		daemon->config->inbox.schema, found, migrate_latest());
	(void)snprintf(err->state, sizeof(err->state), "3F000");
	return FAULT_DATABASE;
}

static int register_once(struct daemon *daemon, struct instance *instance, struct err *err)
{
	struct db_options options;
	struct db *db = NULL;
	char name[32];
	int r;

	sidecar_db_options(daemon->config, 0, name, &options);
	r = db_new(&db, &options, err);
	if (r == 0)
		r = db_open(db, err);
	if (r == 0)
		r = check_schema(db, daemon, err);
	if (r == 0)
		r = instance_register(db, daemon->config->inbox.instance, daemon->lock.place, instance, err);
	db_free(db);
	return r;
}

/* Until PostgreSQL answers, or says something that no waiting mends. 1 = asked to stop meanwhile. */
static int register_instance(struct daemon *daemon, struct instance *instance, struct err *err)
{
	int attempt = 0;
	int r;

	while ((r = register_once(daemon, instance, err)) < 0) {
		int64_t delay = backoff_delay_ms(RECONNECT_MS, RECONNECT_MAX, attempt++, random_u64());

		if (is_final(err))
			return r;
		log_warn("database_unreachable", LOG_STR("error", err->text),
			LOG_INT("retry_in_ms", delay));
		atomic_store(&daemon->health.ingest_tick_ms, clock_now_ms());
		atomic_store(&daemon->health.dispatch_tick_ms, clock_now_ms());
		(void)wake_wait(&daemon->supervision.wake, delay);
		if (atomic_load(&daemon->stop))
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------ an incarnation */

static int64_t low_seq(void *arg)
{
	return dispatch_low_seq(((const struct incarnation *)arg)->dispatch);
}

static void handlers(struct buf *out, void *arg)
{
	dispatch_handlers(((struct incarnation *)arg)->dispatch, out);
}

static int make_shared(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	struct gate_limits limits = {
		.ordering = daemon->config->inbox.ordering,
		.max_claimed = daemon->config->inbox.max_claimed,
		.max_claimed_bytes = daemon->config->inbox.max_claimed_bytes,
	};
	int r = wake_init(&life->wake, err);

	if (r == 0)
		r = gate_new(&life->gate, &limits, err);
	if (r == 0)
		r = queue_new(&life->handovers, HANDOVERS, err);
	return r;
}

static int make_dispatch(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	struct dispatch_options options = {
		.config = daemon->config,
		.gate = life->gate,
		.in = life->handovers,
		.wake = &life->wake,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.instance = life->instance.id,
		.first_low_seq = life->instance.first_low_seq,
		.pg_offset_ms = &daemon->pg_offset_ms,
		.listen_fd = -1,
	};
	int r = socket_listen(&options.listen_fd, daemon->config, err);

	return r != 0 ? r : dispatch_new(&life->dispatch, &options, err);
}

static int make_keeper(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	struct keeper_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.instance = life->instance.id,
		.place = daemon->lock.place,
		.pg_offset_ms = &daemon->pg_offset_ms,
		.low_seq = low_seq,
		.handlers = handlers,
		.arg = life,
	};

	return keeper_new(&life->keeper, &options, err);
}

static int make_ingest(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	struct ingest_options options = {
		.config = daemon->config,
		.gate = life->gate,
		.out = life->handovers,
		.dispatch_wake = &life->wake,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.instance = life->instance.id,
		.first_low_seq = life->instance.first_low_seq,
	};

	return ingest_new(&life->ingest, &options, err);
}

static int begin(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	int r = make_shared(daemon, life, err);

	if (r == 0)
		r = make_dispatch(daemon, life, err);
	if (r == 0)
		r = make_keeper(daemon, life, err);
	if (r == 0)
		r = make_ingest(daemon, life, err);
	if (r == 0)
		r = dispatch_start(life->dispatch, err);
	if (r == 0)
		r = keeper_start(life->keeper, err);
	if (r == 0)
		r = ingest_start(life->ingest, err);
	return r;
}

static void drain_handovers(struct incarnation *life)
{
	void *item = NULL;

	while (life->handovers != NULL && queue_pop(life->handovers, &item, 0) == 0)
		handover_free(item);
}

static void end(struct incarnation *life)
{
	keeper_free(life->keeper);
	ingest_free(life->ingest);
	dispatch_free(life->dispatch);
	drain_handovers(life);
	queue_free(life->handovers);
	gate_free(life->gate);
	wake_fini(&life->wake);
}

/* G9. 1: something hangs; the process must end without freeing. */
static int stop_in_order(struct daemon *daemon, struct incarnation *life)
{
	int64_t timeout = daemon->config->inbox.shutdown_timeout;
	int64_t deadline = clock_now_ms() + timeout;
	int hung;

	notify_stopping();
	dispatch_begin_stop(life->dispatch, deadline);
	hung = ingest_stop(life->ingest, timeout / INGEST_SHARE);
	hung |= dispatch_finish(life->dispatch);
	keeper_stop(life->keeper, hung == 0);
	return hung;
}

static int stop_at_once(struct incarnation *life)
{
	int hung = dispatch_abandon(life->dispatch);

	hung |= ingest_stop(life->ingest, 2000);
	keeper_stop(life->keeper, false);
	return hung;
}

static void reload(struct daemon *daemon, struct incarnation *life)
{
	struct strings restart = { NULL, 0 };
	struct err err = ERR_INIT;
	struct config *config = NULL;

	if (daemon->reloads == sizeof(daemon->reloaded) / sizeof(daemon->reloaded[0]) ||
		config_reload(&config, daemon->config, daemon->options.sources, &restart, &err) != 0) {
		log_error("reload_failed", LOG_STR("error", err.text),
			LOG_STR("next", "the configuration in force stays"));
		return;
	}
	daemon->reloaded[daemon->reloads++] = config;
	daemon->config = config;
	log_configure(config->log.level, config->log.json);
	dispatch_reload(life->dispatch, config);
	log_info("reloaded", LOG_INT("need_restart", restart.count));
	for (size_t i = 0; i < restart.count; i++)
		log_warn("restart_needed", LOG_STR("key", restart.items[i]));
	config_names_free(&restart);
}

/* Watches until there is a reason to end: 0 = asked to stop, 1 = fenced, or a fault. */
static int watch(struct daemon *daemon, struct incarnation *life, struct err *err)
{
	for (;;) {
		(void)wake_wait(&daemon->supervision.wake, WATCH_MS);
		if (supervision_fault(&daemon->supervision, err) != 0)
			return err->fault;
		if (atomic_load(&daemon->stop))
			return 0;
		if (atomic_exchange(&daemon->supervision.fenced, false))
			return 1;
		if (atomic_exchange(&daemon->reload, false))
			reload(daemon, life);
	}
}

static void announce(struct daemon *daemon, const struct incarnation *life)
{
	atomic_store(&daemon->instance, life->instance.id);
	show(daemon, life->dispatch);
	log_info("started", LOG_STR("version", INBOXD_VERSION),
		LOG_STR("instance", daemon->config->inbox.instance), LOG_INT("id", life->instance.id),
		LOG_STR("socket", daemon->config->socket.path),
		LOG_INT("http_port", daemon->http == NULL ? 0 : http_port(daemon->http)));
	notify_ready();
}

/* Ends the process although a library call hangs: what it holds is given back by the lease. */
static void leave_hanging(int code)
{
	log_error("library_call_hangs", LOG_STR("next", "the process ends without waiting for it"));
	_exit(code);
}

/* One life: 0 = asked to stop, 1 = fenced, begin anew; else a fault. */
static int live(struct daemon *daemon, struct err *err)
{
	struct incarnation life = { .wake = WAKE_INIT };
	int hung = 0;
	int r = register_instance(daemon, &life.instance, err);

	if (r != 0)
		return r == 1 ? 0 : r;
	r = begin(daemon, &life, err);
	if (r != 0) {
		if (life.ingest != NULL && life.keeper != NULL)
			hung = stop_at_once(&life);
	} else {
		announce(daemon, &life);
		r = watch(daemon, &life, err);
		hung = r == 1 ? stop_at_once(&life) : stop_in_order(daemon, &life);
	}
	show(daemon, NULL);
	if (hung != 0 && r != 1)
		leave_hanging(err_exit_code(r));
	if (hung == 0)
		end(&life);
	return r;
}

/* ------------------------------------------------------------------ the process */

static int prepare(struct daemon *daemon, struct err *err)
{
	int r = supervision_init(&daemon->supervision, err);

	if (r == 0)
		r = start_signals(daemon, err);
	if (r == 0)
		r = metrics_new(&daemon->metrics, meters, METER_COUNT, err);
	if (r == 0)
		r = socket_lock(&daemon->lock, daemon->config->socket.path, err);
	if (r != 0)
		return r;
	metric_set(metrics_get(daemon->metrics, METER_BUILD_INFO, INBOXD_VERSION, NULL), 1);
	return start_http(daemon, err);
}

static void finish(struct daemon *daemon)
{
	http_stop(daemon->http);
	if (daemon->lock.fd >= 0)
		(void)unlink(daemon->config->socket.path);
	socket_unlock(&daemon->lock);
	metrics_free(daemon->metrics);
	end_signals(daemon);
	supervision_fini(&daemon->supervision);
	for (size_t i = 0; i < daemon->reloads; i++)
		config_free(daemon->reloaded[i]);
}

int inboxd_run(const struct inboxd_options *options, struct err *err)
{
	struct daemon daemon = {
		.options = *options,
		.config = options->config,
		.lock = SOCKET_LOCK_INIT,
		.shown_lock = PTHREAD_MUTEX_INITIALIZER,
		.started_ms = clock_now_ms(),
	};
	int r = prepare(&daemon, err);

	if (r == 0) {
		do
			r = live(&daemon, err);
		while (r == 1);
	}
	if (r == 0)
		log_info("stopped");
	finish(&daemon);
	return r;
}
