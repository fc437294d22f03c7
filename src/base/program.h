/*
 * Runs a program once and keeps what it writes to stdout: for a secret that another program makes.
 *
 * The program runs in a process group of its own, with stdin closed, no descriptor of this process but its own three, and
 * without the variables INBOXD_* and PG* of the environment, which may hold secrets. When it ends, takes too long, writes
 * too much, or the thread is asked to stop, the whole group is killed. If this process is killed, the program goes on; its
 * next write ends it.
 *
 * bridge/exec/process.h is for commands that work on messages: there one thread has many processes, takes the status of
 * every child and forks. Here other threads run, so posix_spawn(3) is used, and only the own child is waited for.
 *
 * One thread for each struct program. It blocks until the program has ended, for timeout_ms and a second at most.
 * Nothing limits posix_spawn(3) itself, which waits for execve(2): that can hang if a file system does not respond.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/threads/thread.h"

#define PROGRAM_OUTPUT_MAX 65536

struct program {
	char *const *command; /* an absolute path and the arguments, ended by NULL; borrowed */
	int64_t timeout_ms;
	pid_t left; /* a killed process that has not ended yet; starts as 0 */
};

/* Whether only root and the user of this process can change the program: neither the file nor a directory above it belongs to
 * others or may be written by a group or by others, except directories in which nobody can replace the files of others. If the
 * path is a symbolic link, this is true of the directories above the link and of those above the program. Gives the path
 * without symbolic links, malloc'ed. FAULT_CONFIG, FAULT_MEMORY. */
int program_find(const char *path, char **real, struct err *err);

/* Appends stdout to `out`. `thread` is the calling one: its stop ends the program. FAULT_CONFIG: see program_find().
 * FAULT_INTERNAL: the program could not be started, failed, or was killed; the text ends with the last line of its stderr, in
 * which what can be a secret is replaced by `***`. FAULT_MEMORY. */
int program_run(
	struct program *program, const struct thread *thread, struct buf *out, struct err *err);

/* As process 1 of a container this process inherits orphans: takes the status of those that have ended. Does nothing
 * otherwise. No other thread may have children. */
void program_reap_orphans(struct program *program);

#endif
