/*
 * A partition, named by topic and number, and a stream, which is a partition for one consumer, as arguments of the
 * functions of the store. Pure.
 */
#ifndef STORE_PARTITION_REF_H
#define STORE_PARTITION_REF_H

#include "model/message/ordering.h"
#include "store/pg/params.h"

struct partition_ref {
	const char *topic;
	int32_t partition;
};

struct stream_ref {
	const char *topic;
	int32_t partition;
	const char *consumer; /* "" = the consumer without a name */
	enum ordering ordering;
};

/* Adds two arrays: topics and numbers. */
void add_partitions(struct params *params, const struct partition_ref *refs, size_t count);
/* Adds three arrays: topics, numbers and consumers. */
void add_streams(struct params *params, const struct stream_ref *refs, size_t count);

/* The word for an ordering in the table, and the ordering of a word. */
const char *ordering_name(enum ordering ordering);
enum ordering ordering_of(const char *name);

#endif
