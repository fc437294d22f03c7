/* The verdict of a command that processes one message: its exit status, and the last line on its stderr. Pure. */
#ifndef BRIDGE_EXEC_EXIT_STATUS_H
#define BRIDGE_EXEC_EXIT_STATUS_H

#include <stdbool.h>

#include "bridge/verdict.h"

/* How a process ended. */
struct ending {
	bool signalled;
	int number; /* the exit code, or the signal */
};

/* The verdict of the exit codes 0 (done; settled with `settles`), 65 (dead) and 75 (retry). Every other code and every
 * signal is a retry. `last_line` becomes the reason of a retry or of dead. There is no result. */
void exit_status_verdict(
	struct ending ending, bool settles, const char *last_line, struct bridge_verdict *out);
/* A retry of a process that ended although it was to go on. `what` says so for people if there is no last line. */
void exit_status_failure(
	struct ending ending, const char *what, const char *last_line, struct bridge_verdict *out);

#endif
