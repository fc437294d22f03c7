/*
 * A record of Kafka, as the rules of identity see it. All pointers are borrowed from the Kafka library. One thread.
 */
#ifndef MODEL_MESSAGE_RECORD_H
#define MODEL_MESSAGE_RECORD_H

#include <stdint.h>

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
	struct bytes key;     /* absent and empty are different, here and in the payload */
	struct bytes payload; /* absent = tombstone */
	const struct header *headers;
	size_t header_count;
};

#endif
