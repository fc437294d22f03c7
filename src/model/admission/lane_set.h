/*
 * A set of lanes: pairs of a stream (index in the admission) and a key hash. It is filled and cleared for each
 * batch. Pure. One thread.
 */
#ifndef MODEL_ADMISSION_LANE_SET_H
#define MODEL_ADMISSION_LANE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane_slot {
	size_t stream;
	uint64_t hash;
	bool used;
};

struct lane_set {
	struct lane_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

#define LANE_SET_INIT                                                                              \
	{                                                                                          \
		.slots = NULL                                                                      \
	}

void lane_set_fini(struct lane_set *set);
/* Removes all lanes and keeps the memory. */
void lane_set_clear(struct lane_set *set);
bool lane_set_has(const struct lane_set *set, size_t stream, uint64_t hash);
/* 1: the lane was added. 0: it was in the set already. FAULT_MEMORY: it was not added. */
int lane_set_add(struct lane_set *set, size_t stream, uint64_t hash);

#endif
