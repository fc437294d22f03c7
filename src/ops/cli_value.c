/*
 * Implements cli_value.h.
 */
#include "ops/cli_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool cli_number(const char *text, int64_t *out)
{
	char *end = NULL;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
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
