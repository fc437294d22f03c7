/*
 * The threads of one instance: their start, the wait for a reason to end, the reload, and their
 * stop. See instance_run.h.
 *
 * There are two ways to end. In an orderly stop (G9) ingest commits its offsets and dispatch
 * settles what its handlers have answered. After fencing nothing is settled and nothing is
 * committed, because the rows may belong to another instance by now (rule R2). Both ways are
 * limited in time, although a call of a library may hang: see signals.h.
 */
#include "daemon/instance_run.h"

#include <string.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "config/show.h"
#include "config/sources/strings.h"
#include "daemon/notify.h"
#include "daemon/registration.h"
#include "daemon/signals.h"
#include "daemon/status_page.h"
#include "dispatch/dispatch.h"
#include "ingest/dead_topic/dead_topic.h"
#include "ingest/ingest.h"
#include "ingest/kafka/tls_files.h"
#include "ingest/kafka/token_cache.h"
#include "ingest/relay/relay.h"
#include "lease/heartbeat.h"
#include "lease/peers.h"
#include "model/message/handover.h"
#include "periodic/janitor.h"

#define HANDOVERS    256 /* batches between ingest and dispatch */
#define WATCH_MS     1000
#define INGEST_SHARE 2 /* ingest may use the shutdown timeout divided by this */

struct instance_run {
	struct instance instance;
	struct consumers names; /* the renames, and the known consumers, at the registration */
	struct consumers own;   /* those that the configuration lists; none: config_sends_only() */
	struct admission *admission;
	struct commit_handover commit_handover;
	struct queue *handovers;
	struct wake wake;
	struct dispatch *dispatch;
	struct ingest *ingest; /* NULL: config_sends_only() */
	struct heartbeat *heartbeat;
	struct peers *peers;
	struct janitor *janitor;
	struct dead_topic *dead_topic;
	struct relay *relay; /* NULL: outbox.enabled is false */
	struct tls_files tls_files;
};

/* --- What the heartbeat asks dispatch ---------------------------------------------------------- */

static void bounds(struct bounds *out, void *arg)
{
	dispatch_bounds(((struct instance_run *)arg)->dispatch, out);
}

static int64_t low_claim(void *arg)
{
	return dispatch_low_claim(((const struct instance_run *)arg)->dispatch);
}

static void handlers(struct buf *out, void *arg)
{
	dispatch_handlers(((struct instance_run *)arg)->dispatch, out);
}

/* --- Start ------------------------------------------------------------------------------------- */

/* False with a text if the configuration lists a consumer under two names. */
static bool is_listed_once(
	const struct config *config, const char *name, const char *present, struct err *err)
{
	if (strcmp(name, present) == 0 || config_consumer_rules(config, present) == NULL)
		return true;
	(void)err_set(err, FAULT_CONFIG,
		"consumers.%s: this consumer was renamed to \"%s\", which is listed, too; remove "
		"it, or, "
		"if it is to be a consumer of its own, first run `inboxd consumers forget %s`",
		name, present, name);
	return false;
}

/* Adds the consumers that the configuration lists, and those that the table had at the registration, so that a handler gets
 * its consumer at once. Ingest adds later ones. */
static int add_consumers(struct admission *admission, const struct config *config,
	const struct consumers *names, struct err *err)
{
	int r = admission_keep_known(admission, names, err);

	if (r == 0 && config->consumer_count == 0)
		r = admission_consumer(
			admission, consumers_present_name(names, ""), config->inbox.ordering, err);
	for (size_t i = 0; r >= 0 && i < config->consumer_count; i++) {
		const struct consumer_rules *rules = &config->consumers[i];
		const char *present = consumers_present_name(names, rules->name);

		if (!is_listed_once(config, rules->name, present, err))
			return FAULT_CONFIG;
		r = admission_consumer(admission, present, rules->ordering, err);
	}
	for (size_t i = 0; r >= 0 && i < names->count; i++)
		r = admission_consumer(
			admission, names->items[i].name, names->items[i].ordering, err);
	return r < 0 ? r : 0;
}

static int add_own(struct consumers *own, const struct consumers *names,
	const struct consumer_rules *rules, struct err *err)
{
	struct consumer *made =
		consumers_add(own, consumers_present_name(names, rules->name), rules->ordering);
	int r = made == NULL ? err_memory(err) : 0;

	for (size_t i = 0; r == 0 && i < rules->topics.count; i++)
		r = consumer_add_topic(made, rules->topics.items[i], err);
	for (size_t i = 0; r == 0 && i < rules->types.count; i++)
		r = consumer_add_type(made, rules->types.items[i], err);
	return r;
}

/* The consumers that the configuration lists; without any, the one without a name. */
static int list_own(struct consumers *own, const struct config *config,
	const struct consumers *names, struct err *err)
{
	int r = 0;

	if (config_sends_only(config))
		return 0;
	if (config->consumer_count == 0 && consumers_add(own, consumers_present_name(names, ""),
						   config->inbox.ordering) == NULL)
		return err_memory(err);
	for (size_t i = 0; r == 0 && i < config->consumer_count; i++)
		r = add_own(own, names, &config->consumers[i], err);
	return r;
}

static int make_shared(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct admission_limits limits = {
		.ordering = daemon->config->inbox.ordering,
		.max_claimed = daemon->config->inbox.max_claimed,
		.max_claimed_bytes = daemon->config->inbox.max_claimed_bytes,
	};
	int r = wake_init(&run->wake, err);

	if (r == 0)
		r = admission_new(&run->admission, &limits, err);
	if (r == 0)
		r = add_consumers(run->admission, daemon->config, &run->names, err);
	if (r == 0)
		r = list_own(&run->own, daemon->config, &run->names, err);
	if (r == 0)
		r = queue_new(&run->handovers, HANDOVERS, err);
	return r;
}

static int make_dispatch(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct dispatch_options options = {
		.config = daemon->config,
		.names = &run->names,
		.own = &run->own,
		.admission = run->admission,
		.commit_handover = &run->commit_handover,
		.in = run->handovers,
		.wake = &run->wake,
		.outbox = relay_wake(run->relay),
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.trace = daemon->trace,
		.instance = run->instance.id,
		.claim_secret = run->instance.claim_secret,
		.first_low_seq = run->instance.first_low_seq,
		.pg_offset_ms = &daemon->pg_offset_ms,
		.listen_fd = -1,
	};
	int r = socket_listen(&options.listen_fd, daemon->config, err);

	return r != 0 ? r : dispatch_new(&run->dispatch, &options, err);
}

static int make_heartbeat(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct heartbeat_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.instance = run->instance.id,
		.pg_offset_ms = &daemon->pg_offset_ms,
		.bounds = bounds,
		.low_claim = low_claim,
		.handlers = handlers,
		.arg = run,
	};

	return heartbeat_new(&run->heartbeat, &options, err);
}

static int make_peers(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct peers_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.heartbeat = run->heartbeat,
		.instance = run->instance.id,
		.host_id = daemon->earlier == 0 ? daemon->lock.host_id : "",
		.earlier = daemon->earlier,
	};

	return peers_new(&run->peers, &options, err);
}

static int make_janitor(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct janitor_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.ages = &daemon->ages,
		.instance = run->instance.id,
	};

	return janitor_new(&run->janitor, &options, err);
}

static int make_dead_topic(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct dead_topic_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.instance = run->instance.id,
	};

	return dead_topic_new(&run->dead_topic, &options, err);
}

static int make_relay(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct relay_options options = {
		.config = daemon->config,
		.metrics = daemon->metrics,
		.supervision = &daemon->supervision,
		.instance = run->instance.id,
	};

	return daemon->config->outbox.enabled ? relay_new(&run->relay, &options, err) : 0;
}

static int make_ingest(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	struct ingest_options options = {
		.config = daemon->config,
		.names = &run->names,
		.own = &run->own,
		.admission = run->admission,
		.commit_handover = &run->commit_handover,
		.out = run->handovers,
		.dispatch_wake = &run->wake,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.supervision = &daemon->supervision,
		.trace = daemon->trace,
		.instance = run->instance.id,
		.first_low_seq = run->instance.first_low_seq,
	};
	bool sends_only = config_sends_only(daemon->config);

	atomic_store(&daemon->health.sends_only, sends_only);
	if (!sends_only)
		return ingest_new(&run->ingest, &options, err);
	log_info("sends_only", LOG_STR("why", "kafka.topics is empty, and outbox.enabled is true"),
		LOG_STR("next", "events are published; no message is read or delivered"));
	return 0;
}

static int make(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	int r = make_shared(daemon, run, err);

	if (r == 0)
		r = make_relay(daemon, run, err);
	if (r == 0)
		r = make_dispatch(daemon, run, err);
	if (r == 0)
		r = make_heartbeat(daemon, run, err);
	if (r == 0)
		r = make_peers(daemon, run, err);
	if (r == 0)
		r = make_janitor(daemon, run, err);
	if (r == 0)
		r = make_dead_topic(daemon, run, err);
	if (r == 0)
		r = make_ingest(daemon, run, err);
	return r;
}

/* Order: the lease is renewed before anything that takes time. Dispatch runs before ingest hands messages to it.
 * peers_fence_earlier() runs before ingest starts, so that the rows of earlier instances are waiting and their keys need no
 * hold (rule R12). */
static int start(struct instance_run *run, struct err *err)
{
	int r = heartbeat_start(run->heartbeat, err);

	if (r == 0)
		r = dispatch_start(run->dispatch, err);
	if (r == 0) {
		peers_fence_earlier(run->peers);
		r = peers_start(run->peers, err);
	}
	if (r == 0 && run->ingest != NULL)
		r = ingest_start(run->ingest, err);
	if (r == 0)
		r = janitor_start(run->janitor, err);
	if (r == 0)
		r = dead_topic_start(run->dead_topic, err);
	if (r == 0 && run->relay != NULL)
		r = relay_start(run->relay, err);
	return r;
}

/* Accepts a run of which only a part was made. No thread may run any more. */
static void end(struct instance_run *run)
{
	void *item = NULL;

	relay_free(run->relay);
	dead_topic_free(run->dead_topic);
	janitor_free(run->janitor);
	peers_free(run->peers);
	heartbeat_free(run->heartbeat);
	ingest_free(run->ingest);
	dispatch_free(run->dispatch);
	while (run->handovers != NULL && queue_pop(run->handovers, &item, 0) == 0)
		handover_free(item);
	queue_free(run->handovers);
	admission_free(run->admission);
	consumers_fini(&run->own);
	consumers_fini(&run->names);
	wake_fini(&run->wake);
}

/* --- Stop -------------------------------------------------------------------------------------- */

/* The orderly stop (G9). Returns 1 when a library call hangs; the process must then end without
 * freeing. */
static int stop_in_order(struct daemon *daemon, struct instance_run *run)
{
	int64_t timeout = daemon->config->inbox.shutdown_timeout;
	int64_t deadline = clock_now_ms() + timeout;
	int hung;

	FAULT_POINT("stop_begun");
	janitor_begin_stop(run->janitor);
	peers_begin_stop(run->peers);
	dead_topic_begin_stop(run->dead_topic);
	relay_begin_stop(run->relay);
	dispatch_begin_stop(run->dispatch, deadline);
	hung = ingest_stop(run->ingest, timeout / INGEST_SHARE);
	FAULT_POINT("stop_ingest_done");
	hung |= dispatch_finish(run->dispatch);
	FAULT_POINT("stop_dispatch_done");
	janitor_stop(run->janitor);
	peers_stop(run->peers);
	dead_topic_stop(run->dead_topic);
	relay_stop(run->relay);
	heartbeat_stop(run->heartbeat, hung == 0);
	return hung;
}

/* After fencing no settle and no offset commit may follow, because another instance may own the
 * rows. */
static int stop_at_once(struct instance_run *run)
{
	int hung;

	janitor_begin_stop(run->janitor);
	peers_begin_stop(run->peers);
	dead_topic_begin_stop(run->dead_topic);
	relay_begin_stop(run->relay);
	hung = dispatch_abandon(run->dispatch);
	hung |= ingest_stop(run->ingest, 2000);
	janitor_stop(run->janitor);
	peers_stop(run->peers);
	dead_topic_stop(run->dead_topic);
	relay_stop(run->relay);
	heartbeat_stop(run->heartbeat, false);
	return hung;
}

/* --- The run ----------------------------------------------------------------------------------- */

static void log_change(const struct config_change *change, void *arg)
{
	(void)arg;
	if (change->restart)
		log_warn("restart_needed", LOG_STR("key", change->key),
			LOG_STR("before", change->before), LOG_STR("now", change->now),
			LOG_STR("next", "inboxd uses the old value until a restart"));
	else
		log_info("config_changed", LOG_STR("key", change->key),
			LOG_STR("before", change->before), LOG_STR("now", change->now));
}

/* Other threads read the configuration without a lock. So each version is kept until the end of the
 * process, and their number is limited. A version that was used before is used again: a program that reloads regularly
 * takes no memory. Takes `config`. NULL: there are too many. */
static const struct config *keep_version(
	struct daemon *daemon, struct config *config, struct err *err)
{
	const struct config *known =
		config_is_equal(daemon->options.config, config) ? daemon->options.config : NULL;

	for (size_t i = 0; known == NULL && i < daemon->reloads; i++) {
		if (config_is_equal(daemon->reloaded[i], config))
			known = daemon->reloaded[i];
	}
	if (known == NULL &&
		daemon->reloads < sizeof(daemon->reloaded) / sizeof(daemon->reloaded[0])) {
		daemon->reloaded[daemon->reloads++] = config;
		return config;
	}
	config_free(config);
	if (known == NULL)
		(void)err_set(err, FAULT_CONFIG,
			"there were %zu different configurations, and each of them is kept in "
			"memory: restart inboxd before the next change",
			daemon->reloads);
	return known;
}

static void reload(struct daemon *daemon, struct instance_run *run)
{
	struct strings restart = { NULL, 0 };
	struct err err = ERR_INIT;
	struct config *fresh = NULL;
	const struct config *config = NULL;

	FAULT_POINT("before_reload");
	if (config_reload(&fresh, daemon->config, daemon->options.sources, &restart, &err) == 0)
		config = keep_version(daemon, fresh, &err);
	if (config == NULL) {
		log_error("reload_failed", LOG_STR("error", err.text),
			LOG_STR("next", "the current configuration stays in use"));
		strings_fini(&restart);
		return;
	}
	/* Without memory, some changes have no line; the reload is not affected. */
	(void)config_changes(daemon->config, config, log_change, NULL, NULL);
	daemon->config = config;
	atomic_store(&daemon->shown_config, config);
	log_configure(config->log.level, config->log.json);
	for (size_t i = 0; i < config->warnings.count; i++)
		log_warn("config_warning", LOG_STR("what", config->warnings.items[i]));
	ingest_reload(run->ingest, config);
	dispatch_reload(run->dispatch, config);
	janitor_reload(run->janitor, config);
	dead_topic_reload(run->dead_topic, config);
	relay_reload(run->relay, config);
	admission_set_budget(
		run->admission, config->inbox.max_claimed, config->inbox.max_claimed_bytes);
	log_info("reloaded", LOG_INT("need_restart", restart.count));
	strings_fini(&restart);
}

/* Waits for a reason to end: 0 = stop requested, an outcome of instance_run(), or a fault. */
static int watch(struct daemon *daemon, struct instance_run *run, struct err *err)
{
	for (;;) {
		(void)wake_wait(&daemon->supervision.wake, WATCH_MS);
		log_repeats(false);
		token_cache_reap();
		if (supervision_fault(&daemon->supervision, err) != 0)
			return err->fault;
		if (atomic_load(&daemon->stop))
			return 0;
		if (atomic_exchange(&daemon->supervision.fenced, false))
			return INSTANCE_FENCED;
		if (atomic_exchange(&daemon->supervision.renamed, false))
			return INSTANCE_RENAMED;
		if (atomic_exchange(&daemon->supervision.rejoins, false) ||
			tls_files_look(&run->tls_files, daemon->config,
				!atomic_load(&daemon->health.broker_ok)))
			return INSTANCE_REJOINS;
		if (atomic_exchange(&daemon->reload, false))
			reload(daemon, run);
	}
}

static void announce(struct daemon *daemon, const struct instance_run *run)
{
	atomic_store(&daemon->instance, run->instance.id);
	status_page_show(daemon, run->dispatch);
	log_info("started", LOG_STR("version", INBOXD_VERSION),
		LOG_STR("instance", daemon->config->inbox.instance),
		LOG_INT("id", run->instance.id), LOG_STR("socket", daemon->config->socket.path),
		LOG_INT("http_port", daemon->http == NULL ? 0 : http_port(daemon->http)));
	notify_ready();
}

/* A process that cannot begin its next instance run exits with a failure code, so that the service manager starts it again. */
static int code_of(int r)
{
	return r > 0 ? -FAULT_INTERNAL : err_exit_code(r);
}

static int stop(struct daemon *daemon, struct instance_run *run, int r)
{
	if (r == INSTANCE_FENCED)
		return stop_at_once(run);
	if (r == INSTANCE_RENAMED)
		log_warn("consumer_renamed", LOG_STR("why", "an operator has renamed a consumer"),
			LOG_STR("next", "this instance stops in order, and begins again with the "
					"new name"));
	else if (r != INSTANCE_REJOINS)
		notify_stopping();
	return stop_in_order(daemon, run);
}

/* When a later run begins, files can be half written: the process must not end because of that. */
static void wait_for_tls_files(struct daemon *daemon)
{
	struct err err = ERR_INIT;
	bool told = false;

	while (daemon->earlier != 0 && !atomic_load(&daemon->stop) &&
		tls_files_try(daemon->config, &err) < 0) {
		if (!told)
			log_warn("kafka_certificates_refused", LOG_STR("error", err.text),
				LOG_STR("next", "tried every second; correct the files of "
						"kafka.ssl.*"));
		told = true;
		(void)wake_wait(&daemon->supervision.wake, WATCH_MS);
	}
}

int instance_run(struct daemon *daemon, struct err *err)
{
	struct instance_run run = { .wake = WAKE_INIT };
	bool made;
	int hung = 0;
	int r;

	signals_lift_limit(daemon); /* of the previous instance */
	wait_for_tls_files(daemon);
	r = registration_run(daemon, &run.instance, &run.names, err);
	if (r != 0) {
		consumers_fini(&run.names);
		return r == REGISTRATION_STOPPED ? 0 : r;
	}
	atomic_store(&daemon->supervision.fenced, false); /* set by the previous instance */
	atomic_store(&daemon->supervision.renamed, false);
	atomic_store(&daemon->supervision.rejoins, false);
	/* the registration was the first heartbeat */
	atomic_store(&daemon->health.heartbeat_ms, run.instance.sent_ms);
	tls_files_note(&run.tls_files, daemon->config);
	r = make(daemon, &run, err);
	made = r == 0;
	if (made)
		r = start(&run, err);
	if (r != 0) {
		signals_limit_end(daemon, r == INSTANCE_FENCED, code_of(r));
		if (made)
			hung = stop_at_once(&run);
	} else {
		announce(daemon, &run);
		r = watch(daemon, &run, err);
		signals_limit_end(daemon, r == INSTANCE_FENCED, code_of(r));
		hung = stop(daemon, &run, r);
	}
	daemon->earlier = run.instance.id;
	status_page_show(daemon, NULL);
	if (hung != 0)
		signals_leave_hanging(code_of(r));
	end(&run);
	return r;
}
