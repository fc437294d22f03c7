/*
 * The place of one process, and of the message that it works on. The process of a slot is started for each message, or
 * with --lines once and again after it has ended.
 *
 * A message that inboxd has cancelled (its time is over, the lease or the connection is lost) is delivered again, so its
 * process is killed at once: two processes must not work on it at the same time for longer than necessary.
 */
#ifndef BRIDGE_EXEC_SLOT_H
#define BRIDGE_EXEC_SLOT_H

#include "bridge/event.h"
#include "bridge/exec/environment.h"
#include "bridge/exec/exec.h"
#include "bridge/exec/process.h"

#define SLOT_START_AGAIN_MS 1000 /* the delay of a message whose command could not be started */

/* What all slots share. */
struct slot_context {
	const struct exec_options *options;
	struct event event;
	struct environment environment;
	struct json_stream *stream;
	bool stopping; /* processes that have ended are not started again */
};

struct slot {
	struct process process;
	struct inbox_delivery *delivery; /* NULL = none */
	/* of the delivery, on the monotonic clock in ms */
	int64_t deadline_ms;
	int64_t span_ms;       /* how long one extension is */
	int64_t extend_at_ms;  /* 0 = not any more */
	int64_t extend_end_ms; /* no extension goes beyond it */
	/* with --lines */
	int64_t start_at_ms; /* when to start the process again; 0 = it runs */
	int64_t cut_off_ms;  /* since when a pipe of the process is closed; 0 = it is not */
	int failures;        /* processes in a row that ended without one answer */
};

/* FAULT_MEMORY. slot_context_fini() is allowed after a fault, too. */
int slot_context_init(
	struct slot_context *context, const struct exec_options *options, struct err *err);
void slot_context_fini(struct slot_context *context);
void slot_init(struct slot *slot);
/* Kills the process, and waits for its end until that time. The message stays open. */
void slot_fini(struct slot *slot, int64_t until_ms);

/* True if the slot can take a message now. */
bool slot_is_ready(const struct slot *slot, const struct slot_context *context);
/* True if the slot has a process that is not about to end. */
bool slot_is_alive(const struct slot *slot);
/* The same, and messages can be sent to it and answers come back. */
bool slot_is_usable(const struct slot *slot);
/* Gives a message to the slot, which must be ready. If the command cannot be started, the message is put off without
 * spending an attempt. FAULT_MEMORY. */
int slot_begin(struct slot *slot, struct slot_context *context, struct inbox_delivery *delivery,
	struct err *err);
/* --lines: starts the process if it is time for it. A failure is logged and tried again later. FAULT_MEMORY. */
int slot_start_when_due(struct slot *slot, struct slot_context *context, struct err *err);
/* Moves input and output, takes the answer, extends the deadline, and obeys a cancel. FAULT_MEMORY. */
int slot_advance(struct slot *slot, struct slot_context *context, struct err *err);
/* After its process was reaped: answers the message. FAULT_MEMORY. */
int slot_process_ended(struct slot *slot, struct slot_context *context, struct err *err);
/* When slot_advance() or slot_start_when_due() must be called in any case; INT64_MAX = never. */
int64_t slot_due_ms(const struct slot *slot);

#endif
