/*
 * An instance run: everything that belongs to one instance id, from registration to the
 * last settled verdict.
 */
#ifndef INSTANCE_RUN_H
#define INSTANCE_RUN_H

#include "daemon.h"

enum { INSTANCE_FENCED = 1 };
/* Lives one life: 0 = asked to stop. INSTANCE_FENCED: the lease is lost, begin anew with another id;
 * nothing was settled (rule R2). Else the fault that ended it. Ends the process instead of returning
 * when a library call hangs at the end. Main thread. */
int instance_run(struct daemon *daemon, struct err *err);

#endif
