/* Borrowed bytes: a pointer and a length. data == NULL means absent, which is different from empty. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct bytes {
	const void *data;
	size_t length;
};

/* The bytes of a string literal. The compiler knows the length. */
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
