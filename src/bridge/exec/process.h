/*
 * A child process in a process group of its own, with pipes to its stdin, stdout and stderr. Nothing of it outlives it:
 * when the process ends or is killed, so is everything that remains in its group. The kernel kills the process, too, if
 * inboxd itself is killed (PR_SET_PDEATHSIG); what it has started then goes on.
 *
 * What it writes to stderr is copied to the stderr of inboxd. What it writes to stdout is kept, up to a limit.
 *
 * One thread, with SIGCHLD blocked. The only other thread of the program is that of log_output.h, which does not change
 * the environment. Nothing here waits, except process_fini() for
 * a killed one, with a limit.
 */
#ifndef BRIDGE_EXEC_PROCESS_H
#define BRIDGE_EXEC_PROCESS_H

#include <poll.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text/last_line.h"
#include "bridge/exec/exit_status.h"

#define PROCESS_FDS 4

struct process {
	pid_t pid; /* 0 = there is no process */
	int in;    /* -1 = closed; so are the next two */
	int out;
	int err;
	int report;          /* open until the program has started or not; -1 = closed */
	int64_t start_by_ms; /* clock_now_ms(): when it must have started */
	int start_error;     /* the errno with which it did not start; 0 = it did */
	bool killed;
	bool input_open; /* stdin stays open when all input is written */
	struct buf input;
	size_t sent;
	struct buf output;
	bool overflow; /* output beyond the limit was dropped */
	struct last_line last_line;
	struct ending ending; /* how the last process ended */
};

/* `output_max` bytes of stdout are kept. */
void process_init(struct process *process, size_t output_max);
/* Kills it, if it runs, and waits until that time (clock_now_ms()) for its end. */
void process_fini(struct process *process, int64_t until_ms);

/* Starts a program, which is searched in PATH if its name has no slash. It must not run already. FAULT_INTERNAL: the
 * kernel does not allow it; the text has the reason. If the program's file does not allow it, the process ends, and
 * `start_error` has the reason. */
int process_start(
	struct process *process, char *const *command, char *const *environment, struct err *err);
/* True if the program has not started for long, because its file system does not respond. */
bool process_start_hangs(const struct process *process);
/* Adds to what is written to its stdin. Without `more`, stdin is closed behind it. False: no memory. */
bool process_write(struct process *process, struct bytes bytes, bool more);
/* Closes its stdin. */
void process_end_input(struct process *process);
/* Kills the whole group. The process ends later: see process_reap(). */
void process_kill(struct process *process);

/* False: what processes write to stderr is not read at present; look again in a few milliseconds. */
bool process_is_heard(void);
/* Fills in what to poll for it. */
void process_prepare(const struct process *process, struct pollfd fds[PROCESS_FDS]);
/* Writes and reads what is possible at once. */
void process_exchange(struct process *process);

/* Takes the exit status of a process that has ended. The processes are found by `find`, which returns NULL for one that
 * is not known. (As process 1 of a container, inboxd inherits such processes.) Afterwards its last output is read, and
 * its pid is 0. Returns it, or NULL when no process has ended. */
struct process *process_reap(struct process *(*find)(void *arg, pid_t pid), void *arg);

#endif
