/* This process and the kernel. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/* Negative = the kernel did not tell. */
struct process_usage {
	double cpu_s; /* user and system, all threads */
	double resident_bytes;
	double virtual_bytes;
	double open_fds;
	double max_fds;
};

/* Reads /proc, which does not wait. Any thread. */
void process_usage(struct process_usage *out);

/*
 * Threads made from now on by the caller do not interrupt whoever is running when they wake up, but wait for a free CPU
 * or the end of a time slice (SCHED_BATCH, sched(7)); their share of the CPUs stays what it is. Leaves another
 * policy that somebody has chosen. Where the kernel or a seccomp filter refuses, nothing changes. Before
 * the first thread.
 */
void process_wait_for_turn(void);

#endif
