/*
 * The process. See daemon.h. This file owns what lives as long as the process: signals, metrics,
 * HTTP, tracing and the socket lock. instance_run.c owns what belongs to one instance id. An
 * instance that finds itself fenced ends its run without settling anything, and the process
 * registers as a new instance (rule R2).
 *
 * HTTP starts before the database is reached, so that a probe can ask a process that waits for it.
 */
#include "daemon/daemon.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_output.h"
#include "base/process.h"
#include "base/time/clock.h"
#include "daemon/config_page.h"
#include "daemon/instance_run.h"
#include "daemon/signals.h"
#include "daemon/status_page.h"
#include "ingest/kafka/consumer_conf.h"
#include "report/meters.h"
#include "store/pg/pg_error_class.h"
#include "trace/trace.h"

static int start_http(struct daemon *daemon, struct err *err)
{
	struct http_options options = {
		.listen = daemon->config->http.listen,
		.metrics = daemon->metrics,
		.health = &daemon->health,
		.lease_ms = daemon->config->worker.lease,
		.status = status_page_add,
		.configuration = config_page_add,
		.status_arg = daemon,
	};

	return options.listen[0] == '\0' ? 0 : http_start(&daemon->http, &options, err);
}

/* The group id identifies best to which service the spans belong. */
static const char *service_name(const struct config *config)
{
	if (config->otlp.service_name[0] != '\0')
		return config->otlp.service_name;
	return consumer_conf_value(config, "group.id", "inboxd");
}

/* Borrows from the first configuration, which exists until the end; a reload does not change these
 * values. */
static int start_trace(struct daemon *daemon, struct err *err)
{
	struct trace_options options = {
		.endpoint = daemon->config->otlp.endpoint,
		.service = service_name(daemon->config),
		.instance = daemon->config->inbox.instance,
		.one_in = daemon->config->otlp.sample,
		.metrics = daemon->metrics,
	};

	return options.endpoint[0] == '\0' ? 0 : trace_start(&daemon->trace, &options, err);
}

/* Creates series with the value 0. A counter that first appears with the value 1 shows no
 * increase, so an alert on its rate would miss the first event. */
static void make_known_series(struct metrics *metrics, const struct config *config)
{
	static const enum meter of_consumers[] = { METER_WAITING, METER_UNROUTED,
		METER_OLDEST_WAITING, METER_END_TO_END };
	size_t count = config->consumer_count;

	metric_set(metrics_get(metrics, METER_BUILD_INFO, INBOXD_VERSION, NULL), 1);
	for (int kind = 0; kind < PG_ERROR_KINDS; kind++)
		(void)metrics_get(metrics, METER_PG_ERRORS,
			pg_error_class_name((enum pg_error_class)kind), NULL);
	for (size_t i = 0; i < sizeof(of_consumers) / sizeof(of_consumers[0]); i++) {
		if (count == 0)
			(void)metrics_get(metrics, of_consumers[i], "", NULL);
		for (size_t k = 0; k < count; k++)
			(void)metrics_get(
				metrics, of_consumers[i], config->consumers[k].name, NULL);
	}
}

/* The order matters. The signals are blocked before any other thread exists, because threads
 * inherit the mask. The socket lock comes before HTTP: when another inboxd uses the socket, this
 * one ends without having opened anything. */
static int prepare(struct daemon *daemon, struct err *err)
{
	int r = supervision_init(&daemon->supervision, err);

	process_raise_descriptors();
	process_wait_for_turn();
	if (r == 0)
		r = log_output_start(err);
	if (r == 0)
		r = signals_start(daemon, err);
	if (r == 0)
		r = metrics_new(&daemon->metrics, meters, METER_COUNT, err);
	if (r == 0)
		r = socket_lock(&daemon->lock, daemon->config->socket.path, err);
	if (r != 0)
		return r;
	make_known_series(daemon->metrics, daemon->options.config);
	r = start_http(daemon, err);
	return r == 0 ? start_trace(daemon, err) : r;
}

/* Accepts a daemon that was prepared in part. The socket is removed only by the process that holds
 * its lock; it may be that of another one otherwise. */
static void finish(struct daemon *daemon)
{
	trace_stop(daemon->trace);
	http_stop(daemon->http);
	if (daemon->lock.fd >= 0)
		(void)unlink(daemon->config->socket.path);
	socket_unlock(&daemon->lock);
	metrics_free(daemon->metrics);
	signals_end(daemon);
	supervision_fini(&daemon->supervision);
	for (size_t i = 0; i < daemon->reloads; i++)
		config_free(daemon->reloaded[i]);
}

int daemon_run(const struct daemon_options *options, struct err *err)
{
	struct daemon daemon = {
		.options = *options,
		.config = options->config,
		.shown_config = options->config,
		.lock = SOCKET_LOCK_INIT,
		.shown_lock = PTHREAD_MUTEX_INITIALIZER,
		.started_ms = clock_now_ms(),
	};
	int r;

	progress_enter(&daemon.progress, "main", NULL);
	r = prepare(&daemon, err);
	if (r == 0) {
		do
			r = instance_run(&daemon, err);
		while (r > 0);
	}
	log_repeats(true);
	if (r == 0)
		log_info("stopped");
	finish(&daemon);
	progress_leave(&daemon.progress);
	return r;
}
