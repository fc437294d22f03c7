/* A borrowed run of bytes. data == NULL means "not there", which is not the same as empty. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct bytes {
	const void *data;
	size_t length;
};

/* Of a string literal, its length known to the compiler. */
#define BYTES_LITERAL(text) ((struct bytes){ "" text, sizeof(text) - 1 })

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	if (a.data == NULL || b.data == NULL)
		return a.data == b.data;
	return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static inline struct bytes bytes_of(const char *text)
{
	return (struct bytes){ text, text == NULL ? 0 : strlen(text) };
}

#endif
