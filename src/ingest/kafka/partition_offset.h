/*
 * A partition with an offset, in the calls of this folder and in their answers.
 */
#ifndef INGEST_KAFKA_PARTITION_OFFSET_H
#define INGEST_KAFKA_PARTITION_OFFSET_H

#include <stddef.h>
#include <stdint.h>

struct partition_offset {
	const char *topic; /* borrowed */
	int32_t partition;
	int64_t offset;    /* below 0: none */
	const char *error; /* a text that lives as long as the process; NULL = no error */
};

#endif
