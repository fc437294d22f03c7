/*
 * JSON strings, written and read, and base64. The time is linear in the input. jsonb accepts every string that is
 * written. Pure. One thread for each buffer.
 */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

/* Appends the JSON string of `text` with its quotes, escaped as RFC 8259 asks and nothing more.
 * The bytes must be UTF-8. */
void json_add_string(struct buf *out, struct bytes text);
/* The same for a text that may contain anything: each byte that is not UTF-8 becomes U+FFFD, and every control
 * character has the form \u00XX. At most `max` bytes of the text are used, cut at a character. */
void json_add_any_string(struct buf *out, const char *text, size_t max);
/* Appends standard base64 (RFC 4648 section 4), no quotes. */
void base64_add(struct buf *out, struct bytes bytes);
/* Writes base64url without padding (RFC 4648 section 5), and no NUL: four bytes for three, at most. Returns the end. */
char *base64url_put(char *out, struct bytes bytes);
/* Appends the bytes of a base64 text: padded, without line breaks. False: it is not base64, and nothing was appended.
 */
bool base64_decode(struct buf *out, struct bytes text);
/* Whether base64_decode() would accept it. */
bool base64_is_valid(struct bytes text);

/* The text of a string or key token: borrowed from `raw` if it has no escapes, else decoded and appended to
 * `scratch`. JSON_BROKEN: it contains the escape of half a surrogate pair. FAULT_MEMORY. */
int json_text_of(struct bytes raw, struct buf *scratch, struct bytes *out, struct err *err);

#endif
