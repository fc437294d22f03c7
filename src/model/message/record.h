/*
 * A record of Kafka, as the rules of identity see it, and the JSON text that the table stores of its headers. All
 * pointers are borrowed from the Kafka library. Pure. One thread.
 */
#ifndef MODEL_MESSAGE_RECORD_H
#define MODEL_MESSAGE_RECORD_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

struct header {
	const char *name;   /* NUL-terminated, any bytes */
	struct bytes value; /* data == NULL: the header's value is null */
};

struct record {
	const char *topic;
	int32_t partition;
	int64_t offset;
	int64_t timestamp_ms; /* -1: the broker gave none */
	int32_t generation;   /* of its log, see model/identity/topic_log.h; 0 and 1 = the first */
	struct bytes key;     /* absent and empty are different, here and in the payload */
	struct bytes payload; /* absent = tombstone */
	const struct header *headers;
	size_t header_count;
};

/* Appends the headers as JSON: [["name","value"], …] in their order, with repeated names; "[]" for none. A name or
 * value that is not UTF-8 or contains a NUL is {"base64":"…"}; a null value is null. jsonb can store every result
 * (PostgreSQL manual, 8.14: no \u0000, no lone surrogates). */
void headers_encode(struct buf *out, const struct header *headers, size_t count);

#endif
