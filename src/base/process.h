/* The resources of this process and its scheduling policy. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

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

/*
 * Sets the policy SCHED_BATCH (sched(7)) for the threads that the caller creates from now on: a thread that wakes up
 * does not preempt a running one, but waits for a free CPU or the end of a time slice. Its share of the CPU does not
 * change. Another policy that was set before is kept. If the kernel or a seccomp filter refuses, nothing changes.
 * Call it before the first thread is created.
 */
void process_wait_for_turn(void);

#endif
