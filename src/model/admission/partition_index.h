/*
 * Maps (topic, partition) to a number, which the owner uses as an array index. Topics are found by hash; partition
 * numbers are small and dense, so an array finds them. Nothing is ever removed. One thread, or under the lock of its
 * owner.
 */
#ifndef MODEL_ADMISSION_PARTITION_INDEX_H
#define MODEL_ADMISSION_PARTITION_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct partition_index_topic;

struct partition_index {
	struct partition_index_topic *topics;
};

void partition_index_fini(struct partition_index *index);
/* The number, or -1 when it was never added. */
int partition_index_find(const struct partition_index *index, const char *name, int32_t partition);
/* Adds or replaces a number, which must be >= 0. Returns a copy of the topic's name that is valid as long as the
 * index. NULL: no memory, and nothing has changed. */
const char *partition_index_add(
	struct partition_index *index, const char *name, int32_t partition, int number);

#endif
