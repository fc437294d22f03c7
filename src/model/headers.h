/*
 * Headers of a record as the JSON array the table keeps: [["name","value"], …] in order, repeated
 * names kept, {"base64":"…"} for what is not UTF-8 or holds NUL (names too are then an object),
 * null for a null value. Exactly what jsonb can store (PostgreSQL 8.14: no \u0000, no lone
 * surrogates). Pure. One thread per buffer.
 */
#ifndef MODEL_HEADERS_H
#define MODEL_HEADERS_H

#include "base/buf.h"
#include "base/utf8.h"
#include "model/record.h"

/* Appends the JSON text of the headers; "[]" for none. */
void headers_encode(struct buf *out, const struct header *headers, size_t count);

/* Appends the JSON string of `text` with its quotes, escaped as RFC 8259 asks and nothing more.
 * The bytes must be UTF-8. */
void json_add_string(struct buf *out, struct bytes text);
/* Appends standard base64 (RFC 4648 section 4), no quotes. */
void base64_add(struct buf *out, struct bytes bytes);

#endif
