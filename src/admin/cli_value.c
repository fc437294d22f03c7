#include "admin/cli_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000LL
#define DAY    (24LL * 3600 * 1000)

static const struct {
	const char *unit;
	int64_t ms;
} units[] = {
	{ "ms", 1 },
	{ "s", 1000 },
	{ "m", 60 * SECOND },
	{ "h", 3600LL * 1000 },
	{ "d", DAY },
	{ "w", 7 * DAY },
	{ "y", 365 * DAY },
};

/* The digits at the front; NULL when there are none or too many. */
static const char *read_number(const char *text, int64_t *out)
{
	char *end = NULL;

	if (text[0] < '0' || text[0] > '9')
		return NULL;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 ? end : NULL;
}

bool cli_number(const char *text, int64_t *out)
{
	const char *end = read_number(text, out);

	return end != NULL && *end == '\0';
}

bool cli_age(const char *text, int64_t *out_ms)
{
	int64_t number = 0;
	const char *unit = read_number(text, &number);

	for (size_t i = 0; unit != NULL && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(units[i].unit, unit) == 0)
			return !__builtin_mul_overflow(number, units[i].ms, out_ms);
	}
	return false;
}

bool cli_is_choice(const char *choices, const char *text)
{
	size_t length = strlen(text);

	for (const char *at = choices; *at != '\0'; at += strspn(at, " ")) {
		size_t size = strcspn(at, " ");

		if (size == length && memcmp(at, text, size) == 0)
			return true;
		at += size;
	}
	return false;
}
