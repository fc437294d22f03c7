/*
 * `inboxd exec`: a handler that passes each message to a command. Either one process a message, with the event on stdin
 * and the verdict in the exit code; or (`lines`) a pool of processes that go on running, each with one message at a
 * time: an event a line on stdin, an answer a line on stdout (answer_line.h).
 */
#ifndef BRIDGE_EXEC_EXEC_H
#define BRIDGE_EXEC_EXEC_H

#include "bridge/intake.h"

/* Everything is borrowed. */
struct exec_options {
	struct intake_options intake;
	char *const *command; /* its name and arguments, ended by NULL */
	bool lines;
	bool settles; /* exit code 0: the command has called inbox.complete() */
	int64_t extend_ms; /* how long a command may take in all, with extended deadlines; 0 = never extend */
};

/* Runs until SIGTERM or SIGINT, and until the open messages are finished. 0, FAULT_USAGE (the program does not exist),
 * FAULT_SOCKET, FAULT_MEMORY, FAULT_INTERNAL. Blocks. */
int exec_run(const struct exec_options *options, struct err *err);

#endif
