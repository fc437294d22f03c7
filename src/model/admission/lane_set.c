/*
 * See lane_set.h. An open-addressing hash table with linear probing, at most half full. Lanes are only added, or
 * removed all at once, so no slot needs a mark of a removed lane.
 */
#include "model/admission/lane_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define FIRST_ROOM 64

/* The hash is a part of a SHA-256, so it is distributed already. Only the stream is multiplied. */
static size_t place_of(const struct lane_set *set, size_t stream, uint64_t hash)
{
	return (size_t)(hash ^ (stream * 0x9e3779b97f4a7c15ULL)) & (set->room - 1);
}

static struct lane_slot *find(const struct lane_set *set, size_t stream, uint64_t hash)
{
	size_t i = place_of(set, stream, hash);

	while (set->slots[i].used && (set->slots[i].stream != stream || set->slots[i].hash != hash))
		i = (i + 1) & (set->room - 1);
	return &set->slots[i];
}

static int grow(struct lane_set *set)
{
	struct lane_set wider = { .room = set->room == 0 ? FIRST_ROOM : set->room * 2 };

	wider.slots = calloc(wider.room, sizeof(*wider.slots));
	if (wider.slots == NULL)
		return FAULT_MEMORY;
	for (size_t i = 0; i < set->room; i++) {
		const struct lane_slot *slot = &set->slots[i];

		if (slot->used)
			*find(&wider, slot->stream, slot->hash) = *slot;
	}
	wider.count = set->count;
	free(set->slots);
	*set = wider;
	return 0;
}

void lane_set_fini(struct lane_set *set)
{
	free(set->slots);
	*set = (struct lane_set)LANE_SET_INIT;
}

void lane_set_clear(struct lane_set *set)
{
	if (set->count > 0)
		memset(set->slots, 0, set->room * sizeof(*set->slots));
	set->count = 0;
}

bool lane_set_has(const struct lane_set *set, size_t stream, uint64_t hash)
{
	return set->count > 0 && find(set, stream, hash)->used;
}

int lane_set_add(struct lane_set *set, size_t stream, uint64_t hash)
{
	struct lane_slot *slot;

	if ((set->count + 1) * 2 > set->room && grow(set) < 0)
		return FAULT_MEMORY;
	slot = find(set, stream, hash);
	if (slot->used)
		return 0;
	*slot = (struct lane_slot){ stream, hash, true };
	set->count++;
	return 1;
}
