/*
 * The known handlers: those that are connected to any instance of the schema, or were within inbox.handler_memory.
 * Messages for a known handler without a connection here wait for it: it is away. They wait until the memory ends or
 * an operator forgets the handler.
 *
 * Promise: no message is routed or claimed before the known handlers have been read once, so none is given to a less
 * specific handler because of a restart. Dispatch thread only; SQL runs on a worker.
 */
#ifndef DISPATCH_GROUPS_HANDLER_MEMORY_H
#define DISPATCH_GROUPS_HANDLER_MEMORY_H

#include "dispatch/groups/handler_groups.h"

struct job;

/* Gives an exchange to an idle worker when it is time. */
void handler_memory_run(struct handler_groups *groups, int64_t now_ms);
/* An exchange has ended. If it failed, the next one is made after a pause, so that other jobs can use the worker. */
void handler_memory_take(struct handler_groups *groups, const struct job *job);

#endif
