/* The resources of this process: what it uses, its limit of descriptors, and its scheduling policy. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stddef.h>

/* A negative value = the kernel did not supply it. */
struct process_usage {
	double cpu_s; /* user and system, all threads */
	double resident_bytes;
	double virtual_bytes;
	double open_fds;
	double max_fds;
};

/* Reads /proc. Does not block. Any thread. */
void process_usage(struct process_usage *out);

/* The limit of open files and sockets (RLIMIT_NOFILE). Raise it once at start, to the hard limit: the default soft limit
 * of 1024 exists for programs that use select(2). */
void process_raise_descriptors(void);
size_t process_descriptors(void);

/*
 * Sets the policy SCHED_BATCH (sched(7)) for the threads that the caller creates from now on: a thread that wakes up
 * does not preempt a running one, but waits for a free CPU or the end of a time slice. Its share of the CPU does not
 * change. Another policy that was set before is kept. If the kernel or a seccomp filter refuses, nothing changes.
 * Call it before the first thread is created.
 */
void process_wait_for_turn(void);

#endif
