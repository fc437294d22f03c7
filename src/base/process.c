/* See process.h. What the kernel knows of this process, from getrusage(2), getrlimit(2) and /proc. */
#include "base/process.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return -1;
	return seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
}

/* Reads the sizes of the virtual and the resident memory in pages. */
static void read_memory(struct process_usage *out)
{
	FILE *file = fopen("/proc/self/statm", "re");
	double page = (double)sysconf(_SC_PAGESIZE);
	unsigned long all;
	unsigned long resident;

	if (file == NULL)
		return;
	/* Written by the kernel: two numbers that fit. */
	if (fscanf(file, "%lu %lu", &all, &resident) == 2) { /* NOLINT(cert-err34-c) */
		out->virtual_bytes = (double)all * page;
		out->resident_bytes = (double)resident * page;
	}
	(void)fclose(file);
}

static double count_open_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = -3; /* ".", ".." and the descriptor of this directory do not count */

	if (directory == NULL)
		return -1;
	while (readdir(directory) != NULL)
		count++;
	(void)closedir(directory);
	return count;
}

void process_usage(struct process_usage *out)
{
	*out = (struct process_usage){
		.cpu_s = cpu_seconds(),
		.resident_bytes = -1,
		.virtual_bytes = -1,
		.open_fds = count_open_fds(),
		.max_fds = (double)process_descriptors(),
	};
	read_memory(out);
}

void process_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

size_t process_descriptors(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur : 1024;
}

void process_wait_for_turn(void)
{
	struct sched_param priority = { .sched_priority = 0 };

	if (sched_getscheduler(0) == SCHED_OTHER)
		(void)sched_setscheduler(0, SCHED_BATCH, &priority);
}
