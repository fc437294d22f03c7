/* The plural s of a counted noun in a text: printf("%d row%s", n, plural(n)). Any thread. */
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stdint.h>

static inline const char *plural(int64_t count)
{
	return count == 1 ? "" : "s";
}

#endif
