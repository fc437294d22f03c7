/*
 * The process from the inside: what signals.c, status.c, registration.c, instance_run.c and inboxd.c share.
 * Fields belong to the main thread but for those marked otherwise.
 */
#ifndef DAEMON_H
#define DAEMON_H

#include <pthread.h>
#include <stdatomic.h>

#include "admin/http.h"
#include "base/metrics.h"
#include "dispatch/sessions/socket.h"
#include "inboxd.h"
#include "model/health.h"
#include "model/supervision.h"

struct dispatch;
struct trace;

/* What lives as long as the process. */
struct daemon {
	struct inboxd_options options;
	const struct config *config; /* the one in force */
	struct config *reloaded[64]; /* kept until the end: threads may still read one */
	size_t reloads;
	struct metrics *metrics;
	struct health health;
	struct http *http;
	struct trace *trace; /* NULL = off */
	struct supervision supervision;
	struct socket_lock lock;
	int32_t earlier; /* the instance id of the life before; 0 = this is the first */
	pthread_t signal_thread;
	bool signals_started;
	atomic_bool stop;             /* any thread */
	atomic_bool reload;           /* any thread */
	_Atomic int64_t pg_offset_ms; /* any thread */
	_Atomic int32_t instance;     /* any thread */
	pthread_mutex_t shown_lock;
	struct dispatch *shown; /* under shown_lock */
	int64_t started_ms;
};

#endif
