/*
 * Numbers as text, for machines and for people: decimal digits, durations with a unit, and the plural of a counted noun.
 * Pure; any thread.
 */
#ifndef BASE_TEXT_NUMBERS_H
#define BASE_TEXT_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGITS_MAX 20 /* the length of any int64_t, including the sign */

/* Writes `number` to `at` without a NUL; returns the end. Faster than printf(3), for lines that are written many thousand
 * times a second. */
char *digits_put(char *at, int64_t number);
/* Writes the last `width` digits of `number`, with leading zeros. */
char *digits_put_wide(char *at, uint64_t number, int width);

/* A duration in the configuration and on the command line is an integer and a unit. */
#define DURATION_UNITS      "ms, s, m, h, d, w or y" /* for errors */
#define DURATION_TEXT_BYTES 32

/* Reads "30s" or "0", which needs no unit. A week has 7 days, a year 365. False: the text is not a duration. A
 * duration that is too long for int64_t becomes INT64_MAX. */
bool duration_read(const char *text, int64_t *out_ms);
/* Writes the duration in the largest unit without a remainder. Weeks are not used: people write 14 days. */
void duration_text(int64_t ms, char out[DURATION_TEXT_BYTES]);

/* The plural s of a counted noun: printf("%d row%s", n, plural(n)). */
static inline const char *plural(int64_t count)
{
	return count == 1 ? "" : "s";
}

#endif
