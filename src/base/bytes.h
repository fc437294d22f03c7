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

/* --- texts and bytes that a struct keeps in the block of memory behind it --- */

/* What place_text() needs; nothing for NULL. */
static inline size_t text_size(const char *text)
{
	return text == NULL ? 0 : strlen(text) + 1;
}

/* Copies a text to *at and moves *at behind it. NULL stays NULL. */
static inline const char *place_text(char **at, const char *text)
{
	size_t size = text_size(text);
	char *placed = *at;

	if (text == NULL)
		return NULL;
	memcpy(placed, text, size);
	*at += size;
	return placed;
}

/* The same for bytes. They need one byte more than their length, so that an empty value has an address of its own and
 * is not absent. */
static inline struct bytes place_bytes(char **at, struct bytes bytes)
{
	struct bytes placed = { NULL, 0 };

	if (bytes.data == NULL)
		return placed;
	memcpy(*at, bytes.data, bytes.length);
	placed = (struct bytes){ *at, bytes.length };
	*at += bytes.length + 1;
	return placed;
}

#endif
