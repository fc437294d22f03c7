/*
 * The clocks, and a time as text. See clock.h. The text is written without gmtime_r(3) and snprintf(3), because every
 * message that is delivered contains times.
 */
#include "base/time/clock.h"

#include <time.h>

#include "base/text/numbers.h"

#define DAY_MS        86400000
#define DAYS_400Y     146097    /* the Gregorian calendar repeats after 400 years */
#define DAYS_TO_EPOCH 719468    /* from 1 March of the year 0 to 1970-01-01 */
#define FIRST_DAY     (-719528) /* 0000-01-01 */
#define LAST_DAY      2932896   /* 9999-12-31 */

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

struct timespec clock_deadline(int64_t ms)
{
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += (time_t)(ms / 1000);
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

int64_t clock_wall_us(void)
{
	return read_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms(void)
{
	return clock_wall_us() / 1000;
}

/* Years are counted from March, so that the leap day is the last day of the year. The number of days before a month
 * is then linear: 153 days for five months. */
static char *put_date(char *at, int64_t day)
{
	int64_t days = day + DAYS_TO_EPOCH;
	int64_t era = (days >= 0 ? days : days - DAYS_400Y + 1) / DAYS_400Y;
	int64_t of_era = days - era * DAYS_400Y;
	int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
	int64_t month = (5 * of_year + 2) / 153; /* 0 = March */
	int64_t year = era * 400 + years + (month >= 10 ? 1 : 0);

	at = digits_put_wide(at, (uint64_t)year, 4);
	*at++ = '-';
	at = digits_put_wide(at, (uint64_t)(month < 10 ? month + 3 : month - 9), 2);
	*at++ = '-';
	return digits_put_wide(at, (uint64_t)(of_year - (153 * month + 2) / 5 + 1), 2);
}

void clock_format_ms(int64_t unix_ms, char out[32])
{
	int64_t day = unix_ms / DAY_MS - (unix_ms % DAY_MS < 0 ? 1 : 0);
	uint64_t ms = (uint64_t)(unix_ms - day * DAY_MS);

	if (day < FIRST_DAY || day > LAST_DAY) {
		ms = day < FIRST_DAY ? 0 : DAY_MS - 1;
		day = day < FIRST_DAY ? FIRST_DAY : LAST_DAY;
	}
	out = put_date(out, day);
	*out++ = 'T';
	out = digits_put_wide(out, ms / 3600000, 2);
	*out++ = ':';
	out = digits_put_wide(out, ms / 60000 % 60, 2);
	*out++ = ':';
	out = digits_put_wide(out, ms / 1000 % 60, 2);
	*out++ = '.';
	out = digits_put_wide(out, ms % 1000, 3);
	*out++ = 'Z';
	*out = '\0';
}
