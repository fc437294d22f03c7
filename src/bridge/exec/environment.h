/*
 * The environment of a command: that of inboxd, and each attribute of the event as CE_NAME. Variables CE_* of inboxd
 * itself are left out, so that a command never sees a value of something else. An attribute is left out if it holds a
 * NUL, or if all of them together are longer than the kernel is sure to accept; stdin has every attribute. Pure. One
 * thread.
 */
#ifndef BRIDGE_EXEC_ENVIRONMENT_H
#define BRIDGE_EXEC_ENVIRONMENT_H

#include "base/buf.h"
#include "base/err.h"
#include "bridge/event.h"

#define ENVIRONMENT_BYTES_MAX                                                                      \
	65536 /* of all attributes; execve(2) accepts 128 KiB for one string */

struct environment {
	char **variables; /* ended by NULL */
	struct buf texts;
};

void environment_fini(struct environment *environment);
/* Builds the environment from `inherited`, which is borrowed, ended by NULL. `event` may be NULL. FAULT_MEMORY. */
int environment_set(struct environment *environment, char **inherited, const struct event *event,
	struct err *err);

#endif
