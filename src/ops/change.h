/*
 * What differs between `replay`, `retry`, `resolve` and `discard`, and their changes by filter. See replay.c. Main
 * thread; blocks.
 */
#ifndef OPS_CHANGE_H
#define OPS_CHANGE_H

#include "ops/op.h"

/* The advice for a message that was not changed, by its state. */
struct way {
	const char *status; /* NULL ends the list */
	const char *text;
};

/* What differs between the commands. */
struct change {
	const char *name;   /* name of the command, for errors of the schema */
	const char *status; /* the default state */
	const char *states; /* the allowed states */
	const char *done;
	const char *noun;
	const struct way *ways;
	enum query one; /* changes one by event id; events of the outbox have none */
	enum query count;
	enum query page;
	const char *status_of_id; /* the default state with an event id, if it is another one */
};

/* Counts the matches of the options' filter, asks, and changes them page by page. FAULT_CHECK: nothing matches. */
int op_change_filtered(const struct op *op, const struct change *change, struct err *err);

#endif
