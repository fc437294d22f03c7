/*
 * The database work at the start: checks or migrates the schema, and registers this instance.
 */
#ifndef DAEMON_REGISTRATION_H
#define DAEMON_REGISTRATION_H

#include "daemon/state.h"
#include "model/routing/consumers.h"
#include "store/leases/instance.h"

enum { REGISTRATION_STOPPED = 1 };
/* Blocks until PostgreSQL answers, or until it reports a fault that no retry can cure; returns that
 * fault. REGISTRATION_STOPPED: a stop was requested in the meantime. `names`: the consumers that are known, and their renames. Main
 * thread. */
int registration_run(
	struct daemon *daemon, struct instance *out, struct consumers *names, struct err *err);

#endif
