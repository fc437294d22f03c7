/*
 * Implements holds.h.
 */
#include "model/outbox/holds.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define FIRST_ROOM 64

void holds_fini(struct holds *holds)
{
	free(holds->slots);
	*holds = (struct holds)HOLDS_INIT;
}

void holds_clear(struct holds *holds)
{
	if (holds->room > 0)
		memset(holds->slots, 0, holds->room * sizeof(holds->slots[0]));
	holds->count = 0;
	holds->topics = 0;
	holds->free = 0;
}

/* The slot of the hash, or the empty one where it belongs. There is always an empty one. */
static struct hold *slot_of(const struct holds *holds, uint64_t hash)
{
	size_t at = (size_t)hash & (holds->room - 1);

	while (holds->slots[at].state != HOLD_NONE && holds->slots[at].hash != hash)
		at = (at + 1) & (holds->room - 1);
	return &holds->slots[at];
}

struct hold holds_get(const struct holds *holds, uint64_t hash)
{
	const struct hold none = { .state = HOLD_NONE };

	return holds->count == 0 ? none : *slot_of(holds, hash);
}

static void place(struct holds *holds, const struct hold *hold)
{
	*slot_of(holds, hold->hash) = *hold;
	holds->count++;
	holds->topics += hold->topic;
	holds->free += hold->state == HOLD_FREE;
}

/* Builds the table again in `room` slots, without the holds in the state `without`. */
static int rebuild(struct holds *holds, size_t room, enum hold_state without)
{
	struct holds built = { .slots = calloc(room, sizeof(built.slots[0])), .room = room };

	if (built.slots == NULL)
		return FAULT_MEMORY;
	for (size_t i = 0; i < holds->room; i++) {
		if (holds->slots[i].state != HOLD_NONE && holds->slots[i].state != without)
			place(&built, &holds->slots[i]);
	}
	free(holds->slots);
	*holds = built;
	return 0;
}

int holds_set(struct holds *holds, uint64_t hash, int64_t head, bool topic)
{
	struct hold hold = { hash, head, HOLD_WAITS, topic };
	struct hold *slot;

	if (2 * (holds->count + 1) > holds->room &&
		rebuild(holds, holds->room == 0 ? FIRST_ROOM : holds->room * 2, HOLD_NONE) < 0)
		return FAULT_MEMORY;
	slot = slot_of(holds, hash);
	if (slot->state == HOLD_NONE) {
		place(holds, &hold);
		return 0;
	}
	holds->free -= slot->state == HOLD_FREE;
	slot->state = HOLD_WAITS;
	slot->head = head;
	return 0;
}

void holds_release(struct holds *holds, uint64_t hash, int64_t seq)
{
	struct hold *slot;

	if (holds->count == 0)
		return;
	slot = slot_of(holds, hash);
	if (slot->state != HOLD_WAITS || slot->head != seq)
		return;
	slot->state = HOLD_FREE;
	holds->free++;
}

void holds_begin_pass(struct holds *holds)
{
	for (size_t i = 0; i < holds->room; i++) {
		if (holds->slots[i].state == HOLD_FREE)
			holds->slots[i].state = HOLD_PASSES;
	}
	holds->free = 0;
}

void holds_end_pass(struct holds *holds)
{
	/* without memory the holds stay until the end of the next pass */
	if (holds->room > 0)
		(void)rebuild(holds, holds->room, HOLD_PASSES);
}

const struct hold *holds_next_waiting(const struct holds *holds, size_t *position)
{
	while (*position < holds->room) {
		const struct hold *hold = &holds->slots[(*position)++];

		if (hold->state == HOLD_WAITS)
			return hold;
	}
	return NULL;
}
