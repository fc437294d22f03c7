/*
 * Strict UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). Pure. Any
 * thread. Linear in what goes in; ASCII is passed eight bytes at a time.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>

#include "base/bytes.h"

bool utf8_is_valid(struct bytes bytes);
/* Nothing but U+0020 to U+007E: no control character, valid whatever is asked. Absent is not. */
bool ascii_is_printable(struct bytes bytes);
/* Length of the character that the first of `left` bytes begins; 0 when they begin none. */
size_t utf8_character(const void *text, size_t left);
/* Makes a text valid that was cut somewhere: what is left of a character at its end goes, other bytes that begin no
 * character become '?'. */
void utf8_repair(char *text);

/* The longest start of the text that fits in `max` bytes and ends with a whole character. */
size_t utf8_fit(const char *text, size_t length, size_t max);

#endif
