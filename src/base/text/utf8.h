/*
 * Strict UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). Pure. Any thread. The time is
 * linear in the input; ASCII is checked eight bytes at a time.
 */
#ifndef BASE_TEXT_UTF8_H
#define BASE_TEXT_UTF8_H

#include <stdbool.h>

#include "base/bytes.h"

bool utf8_is_valid(struct bytes bytes);
/* True if all bytes are U+0020 to U+007E. Such a text is valid UTF-8 without control characters. False if absent. */
bool ascii_is_printable(struct bytes bytes);
/* Length of the character that the first of `left` bytes begins; 0 when they begin none. */
size_t utf8_character(const void *text, size_t left);
/* Makes a text valid that was cut: an incomplete character at its end is removed, and other bytes that begin no
 * character become '?'. */
void utf8_repair(char *text);

/* The longest start of the text that fits in `max` bytes and ends with a whole character. */
size_t utf8_fit(const char *text, size_t length, size_t max);

#endif
