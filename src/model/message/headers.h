/*
 * Encodes the headers of a record as the JSON array that the table stores: [["name","value"], …] in their order, with
 * repeated names. A name or value that is not UTF-8 or contains a NUL is {"base64":"…"}; a null value is null. jsonb
 * can store every result (PostgreSQL manual, 8.14: no \u0000, no lone surrogates). Pure. One thread for each buffer.
 */
#ifndef MODEL_MESSAGE_HEADERS_H
#define MODEL_MESSAGE_HEADERS_H

#include "base/buf.h"
#include "base/utf8.h"
#include "model/message/record.h"

/* Appends the JSON text of the headers; "[]" for none. */
void headers_encode(struct buf *out, const struct header *headers, size_t count);

#endif
