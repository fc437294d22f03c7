/* The database at the start: its schema is checked or migrated, and this sidecar gets an instance id. */
#ifndef REGISTRATION_H
#define REGISTRATION_H

#include "daemon.h"
#include "store/instance.h"

enum { REGISTRATION_STOPPED = 1 };
/* Blocks until PostgreSQL answers, or says something that no waiting mends: that fault.
 * REGISTRATION_STOPPED: asked to stop meanwhile. Main thread. */
int registration_run(struct daemon *daemon, struct instance *out, struct err *err);

#endif
