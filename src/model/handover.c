#include "model/handover.h"

#include <stdlib.h>

static int room_for(void **array, size_t count, size_t size)
{
	if (count == 0)
		return 0;
	*array = calloc(count, size);
	return *array == NULL ? FAULT_MEMORY : 0;
}

static int make_rooms(struct handover *handover, size_t items, size_t parked, size_t revoked)
{
	void *array = NULL;

	if (room_for(&array, items, sizeof(*handover->items)) < 0)
		return FAULT_MEMORY;
	handover->items = array;
	array = NULL;
	if (room_for(&array, parked, sizeof(*handover->parked)) < 0)
		return FAULT_MEMORY;
	handover->parked = array;
	array = NULL;
	if (room_for(&array, revoked, sizeof(*handover->revoked)) < 0)
		return FAULT_MEMORY;
	handover->revoked = array;
	return 0;
}

int handover_new(
	struct handover **out, size_t items, size_t parked, size_t revoked, struct err *err)
{
	struct handover *handover = calloc(1, sizeof(*handover));

	if (handover == NULL)
		return err_memory(err);
	if (make_rooms(handover, items, parked, revoked) < 0) {
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
	free(handover);
}
