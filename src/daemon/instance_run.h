/*
 * An instance run: everything that belongs to one instance id, from its registration to its last
 * settled verdict.
 */
#ifndef DAEMON_INSTANCE_RUN_H
#define DAEMON_INSTANCE_RUN_H

#include "daemon/state.h"

enum { INSTANCE_FENCED = 1, INSTANCE_RENAMED = 2, INSTANCE_REJOINS = 3 };
/*
 * Runs one instance. 0 = stop requested. INSTANCE_FENCED: the lease is lost and nothing was
 * settled; call it again for a new instance (rule R2). INSTANCE_RENAMED: a consumer has another name, and the run ended in
 * order; call it again. INSTANCE_REJOINS: the same, because the client of Kafka has ended, or its certificate was renewed. Otherwise the fault that ended the run. If a
 * library call hangs at the end, the function ends the process instead of returning. Main thread;
 * blocks.
 */
int instance_run(struct daemon *daemon, struct err *err);

#endif
