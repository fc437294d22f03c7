/*
 * A host whose calendar is wrong: loaded before a program (LD_PRELOAD), it shows the time of day
 * WRONG_CLOCK seconds off. Monotonic clocks stay right, and so do waits until a time of day, which the
 * program can only have computed from what it was shown (librdkafka's are all cnd_timedwait).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long seconds_off(void)
{
	const char *text = getenv("WRONG_CLOCK");

	return text == NULL ? 0 : strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	int r = (int)syscall(SYS_clock_gettime, clock, out);

	if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		out->tv_sec += seconds_off();
	return r;
}

int timespec_get(struct timespec *out, int base)
{
	return clock_gettime(CLOCK_REALTIME, out) == 0 ? base : 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (out != NULL)
		*out = now.tv_sec;
	return now.tv_sec;
}

int cnd_timedwait(
	cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict at)
{
	int (*next)(cnd_t *, mtx_t *, const struct timespec *) = NULL;
	struct timespec right = *at;

	right.tv_sec -= seconds_off();
	*(void **)&next = dlsym(RTLD_NEXT, "cnd_timedwait");
	return next(condition, mutex, &right);
}
