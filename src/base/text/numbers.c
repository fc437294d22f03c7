/*
 * Numbers as text. See numbers.h.
 */
#include "base/text/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Decimal digits ---------------------------------------------------------------------------- */

char *digits_put(char *at, int64_t number)
{
	uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	int width = 1;

	if (number < 0)
		*at++ = '-';
	for (uint64_t left = rest / 10; left > 0; left /= 10)
		width++;
	return digits_put_wide(at, rest, width);
}

char *digits_put_wide(char *at, uint64_t number, int width)
{
	for (int i = width; i-- > 0; number /= 10)
		at[i] = (char)('0' + number % 10);
	return at + width;
}

/* --- Durations --------------------------------------------------------------------------------- */

#define SECOND INT64_C(1000)
#define DAY    (86400 * SECOND)

/* Largest first. */
static const struct {
	const char *name;
	int64_t ms;
	bool read_only;
} units[] = {
	{ "y", 365 * DAY, false },
	{ "w", 7 * DAY, true },
	{ "d", DAY, false },
	{ "h", 3600 * SECOND, false },
	{ "m", 60 * SECOND, false },
	{ "s", SECOND, false },
	{ "ms", 1, false },
};

#define UNITS (sizeof(units) / sizeof(units[0]))

/* What follows the digits; NULL when there are none. */
static const char *read_digits(const char *text, int64_t *out)
{
	const char *c = text;

	*out = 0;
	for (; *c >= '0' && *c <= '9'; c++) {
		if (*out > (INT64_MAX - 9) / 10)
			*out = INT64_MAX;
		else
			*out = *out * 10 + (*c - '0');
	}
	return c == text ? NULL : c;
}

bool duration_read(const char *text, int64_t *out_ms)
{
	int64_t number;
	const char *unit = read_digits(text, &number);

	for (size_t i = 0; unit != NULL && i < UNITS; i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(number, units[i].ms, out_ms))
			*out_ms = INT64_MAX;
		return true;
	}
	*out_ms = 0;
	return strcmp(text, "0") == 0;
}

void duration_text(int64_t ms, char out[DURATION_TEXT_BYTES])
{
	size_t i = 0;

	while (i + 1 < UNITS && (units[i].read_only || ms == 0 || ms % units[i].ms != 0))
		i++;
	(void)snprintf(out, DURATION_TEXT_BYTES, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}
