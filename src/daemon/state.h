/*
 * The state of the process, shared by signals.c, status_page.c, registration.c, instance_run.c and
 * daemon.c. Fields belong to the main thread, except those marked otherwise.
 */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/threads/progress.h"
#include "daemon/daemon.h"
#include "dispatch/sessions/socket.h"
#include "http/http.h"
#include "periodic/janitor.h"
#include "report/health.h"
#include "report/metrics.h"
#include "report/supervision.h"

struct dispatch;
struct trace;

/* Everything that lives as long as the process. */
struct daemon {
	struct daemon_options options;
	const struct config *config;               /* the current configuration */
	const struct config *_Atomic shown_config; /* any thread: the same */
	/* kept until the end, because other threads may still read an old one */
	struct config *reloaded[64];
	size_t reloads;
	struct metrics *metrics;
	struct health health;
	struct http *http;
	struct trace *trace; /* NULL = tracing is off */
	struct supervision supervision;
	struct janitor_ages ages; /* of the janitors of all instances */
	struct socket_lock lock;
	int32_t earlier; /* id of the previous instance of this process; 0 = this is the first */
	pthread_t signal_thread;
	bool signals_started;
	atomic_bool stop;          /* any thread */
	_Atomic int64_t end_by_ms; /* any thread: when the process ends in any case; 0 = no limit */
	atomic_int end_code;       /* any thread */
	struct progress progress;  /* of the main thread */
	atomic_bool reload;        /* any thread */
	_Atomic int64_t pg_offset_ms; /* any thread */
	_Atomic int32_t instance;     /* any thread */
	pthread_mutex_t shown_lock;
	struct dispatch *shown; /* protected by shown_lock */
	int64_t started_ms;
};

#endif
