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
 * returns the fault that no retry can cure. Threads start in this order: signals, http, dispatch
 * with its workers, heartbeat, ingest. They stop in the reverse order, except that ingest stops
 * first.
 */
int daemon_run(const struct daemon_options *options, struct err *err);

#endif
