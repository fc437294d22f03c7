/*
 * The assembled daemon: which thread starts when, who stops whom, and what happens when the lease is
 * lost. Called by main once, on the main thread.
 */
#ifndef INBOXD_H
#define INBOXD_H

#include <stdbool.h>

#include "config/config.h"
#include "config/load.h"

struct inboxd_options {
	const struct config *config;          /* kept */
	const struct config_sources *sources; /* kept: for SIGHUP */
	bool migrate;                         /* apply missing migrations first */
};

/* Runs until SIGTERM or SIGINT: 0. A second one ends the process at once. Otherwise the fault that no
 * retry mends. Threads, in the order they start (they stop in the reverse order, but ingest stops
 * first): signals, http, dispatch with its workers, heartbeat, ingest. */
int inboxd_run(const struct inboxd_options *options, struct err *err);

#endif
