/*
 * From (topic, partition) to a number its owner chose: an index in an array. Topics by hash; the
 * partitions of a topic are dense and small, so an array finds them. Nothing is ever removed. One
 * thread, or under its owner's lock.
 */
#ifndef MODEL_PARTITION_INDEX_H
#define MODEL_PARTITION_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct partition_index_topic;

struct partition_index {
	struct partition_index_topic *topics;
};

void partition_index_fini(struct partition_index *index);
/* The number, or -1 when it was never added. */
int partition_index_find(const struct partition_index *index, const char *name, int32_t partition);
/* Adds or replaces; `number` >= 0. Returns the index's own copy of the topic's name, which lives as long
 * as the index, or NULL: no memory, nothing changed. */
const char *partition_index_add(
	struct partition_index *index, const char *name, int32_t partition, int number);

#endif
