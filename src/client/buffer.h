/*
 * A growable byte buffer for the handler library, which builds without the rest of the tree. After an append that
 * failed the buffer is broken and further appends do nothing, so the caller checks once, at the end. One thread.
 */
#ifndef CLIENT_BUFFER_H
#define CLIENT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ih_buffer {
	char *data;
	size_t length;
	size_t capacity;
	bool broken; /* out of memory since the last ih_buffer_cut() */
};

void ih_buffer_fini(struct ih_buffer *buffer);
/* Removes everything behind `length`. The buffer is not broken afterwards. */
void ih_buffer_cut(struct ih_buffer *buffer, size_t length);
/* Frees the memory, with the content, if it is larger than `keep`. */
void ih_buffer_trim(struct ih_buffer *buffer, size_t keep);
/* Makes room for `extra` bytes behind the content. False: out of memory. */
bool ih_buffer_reserve(struct ih_buffer *buffer, size_t extra);
void ih_buffer_add(struct ih_buffer *buffer, const void *bytes, size_t length);
void ih_buffer_add_text(struct ih_buffer *buffer, const char *text);
void ih_buffer_add_number(struct ih_buffer *buffer, int64_t number);
/* Appends a JSON string with its quotes. Each byte that is not UTF-8 becomes U+FFFD. Uses at most `max` bytes of the
 * text, cut at a character. */
void ih_buffer_add_string(struct ih_buffer *buffer, const char *text, size_t max);
/* True for strict UTF-8 (RFC 3629) with a complete last character. */
bool ih_utf8_is_valid(const char *text, size_t length);

#endif
