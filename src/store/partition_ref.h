/*
 * A partition, named by topic and number, as an argument of the functions of the store. Pure.
 */
#ifndef STORE_PARTITION_REF_H
#define STORE_PARTITION_REF_H

#include "store/pg/params.h"

struct partition_ref {
	const char *topic;
	int32_t partition;
};

/* Adds two arrays: topics and numbers. */
void add_partitions(struct params *params, const struct partition_ref *refs, size_t count);

#endif
