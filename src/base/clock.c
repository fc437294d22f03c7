#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
	struct timespec now;

	(void)clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_now_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t clock_now_ms(void)
{
	return clock_now_us() / 1000;
}

int64_t clock_wall_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

void clock_format_ms(int64_t unix_ms, char out[32])
{
	int64_t ms = unix_ms % 1000;
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm utc;
	size_t length;

	if (ms < 0) {
		ms += 1000;
		seconds--;
	}
	if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year > 8099) {
		(void)snprintf(out, 32, "9999-12-31T23:59:59.999Z");
		return;
	}
	length = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(out + length, 32 - length, ".%03uZ", (unsigned)ms % 1000);
}
