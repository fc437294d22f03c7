/*
 * The assembled daemon: the order in which threads start and stop, and the reaction to a lost
 * lease. main() calls it once, on the main thread.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "config/config.h"
#include "config/load.h"

struct daemon_options {
	const struct config *config;          /* kept */
	const struct config_sources *sources; /* kept: for SIGHUP */
	bool migrate;                         /* apply missing migrations first */
};

/*
 * Runs until SIGTERM or SIGINT and returns 0; a second signal ends the process at once. Otherwise
 * returns the fault that no retry can cure.
 *
 * Threads start in this order: signals, http, trace; then, with each instance, dispatch with its workers, heartbeat,
 * ingest, retention, dead topic, relay. An orderly stop first requests the end of retention, dead topic and relay, and
 * that dispatch delivers nothing new. Then these end, in this order: ingest, dispatch, retention, dead topic, relay,
 * heartbeat, trace, http, signals.
 */
int daemon_run(const struct daemon_options *options, struct err *err);

#endif
