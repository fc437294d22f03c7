/*
 * See handover.h. All arrays are allocated at once, for a batch before its transaction, so that filling a handover
 * cannot fail after the COMMIT. A failure then would lose track of rows that are born claimed, until the instance
 * ends.
 */
#include "model/message/handover.h"

#include <stdlib.h>
#include <string.h>

/* An array with room for `count`; NULL for none. False: no memory. */
static bool room_for(void *array, size_t count, size_t size)
{
	void *made = count == 0 ? NULL : calloc(count, size);

	memcpy(array, &made, sizeof(made));
	return count == 0 || made != NULL;
}

int handover_new(struct handover **out, const struct handover_room *room, struct err *err)
{
	struct handover *handover = calloc(1, sizeof(*handover));

	if (handover == NULL)
		return err_memory(err);
	if (!room_for(&handover->items, room->items, sizeof(*handover->items)) ||
		!room_for(&handover->parked, room->parked, sizeof(*handover->parked)) ||
		!room_for(&handover->revoked, room->revoked, sizeof(*handover->revoked)) ||
		!room_for(&handover->acquired, room->acquired, sizeof(*handover->acquired)) ||
		!room_for(&handover->held, room->held, sizeof(*handover->held))) {
		handover_free(handover);
		return err_memory(err);
	}
	*out = handover;
	return 0;
}

void handover_free(struct handover *handover)
{
	if (handover == NULL)
		return;
	for (size_t i = 0; i < handover->count; i++)
		message_free(handover->items[i].message);
	free(handover->items);
	free(handover->parked);
	free(handover->revoked);
	free(handover->acquired);
	free(handover->held);
	free(handover);
}
