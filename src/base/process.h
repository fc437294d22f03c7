/* What the kernel says of this process. Reads /proc, which does not wait. Any thread. */
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

void process_usage(struct process_usage *out);

#endif
