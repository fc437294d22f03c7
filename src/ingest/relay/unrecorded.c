/* See unrecorded.h. There are a few, and usually none. */
#include "ingest/relay/unrecorded.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

void unrecorded_fini(struct unrecorded *unrecorded)
{
	for (size_t i = 0; i < unrecorded->count; i++)
		free(unrecorded->items[i].error);
	free(unrecorded->items);
	*unrecorded = (struct unrecorded){ .items = NULL };
}

size_t unrecorded_find(const struct unrecorded *unrecorded, int64_t seq)
{
	size_t low = 0;
	size_t high = unrecorded->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (unrecorded->items[middle].result.seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool unrecorded_has(const struct unrecorded *unrecorded, int64_t seq)
{
	size_t at = unrecorded_find(unrecorded, seq);

	return at < unrecorded->count && unrecorded->items[at].result.seq == seq;
}

size_t unrecorded_count(const struct unrecorded *unrecorded, bool refused, int64_t *lowest)
{
	size_t count = 0;
	int64_t first = 0;

	for (size_t i = 0; i < unrecorded->count; i++) {
		if (unrecorded->items[i].result.refused != refused)
			continue;
		if (count++ == 0)
			first = unrecorded->items[i].result.seq;
	}
	if (lowest != NULL)
		*lowest = first;
	return count;
}

bool unrecorded_is_full(const struct unrecorded *unrecorded)
{
	return unrecorded->count >= UNRECORDED_MOST;
}

static int make_room(struct unrecorded *unrecorded)
{
	size_t room = unrecorded->room == 0 ? FIRST_ROOM : 2 * unrecorded->room;
	struct unrecorded_event *items;

	if (unrecorded->count < unrecorded->room)
		return 0;
	items = realloc(unrecorded->items, room * sizeof(*items));
	if (items == NULL)
		return FAULT_MEMORY;
	unrecorded->items = items;
	unrecorded->room = room;
	return 0;
}

int unrecorded_put(
	struct unrecorded *unrecorded, const struct unrecorded_event *event, struct err *err)
{
	struct unrecorded_event copy = *event;
	size_t at;

	unrecorded_drop(unrecorded, event->result.seq);
	if (make_room(unrecorded) < 0)
		return err_memory(err);
	copy.error = event->result.error == NULL ? NULL : strdup(event->result.error);
	if (copy.error == NULL && event->result.error != NULL)
		return err_memory(err);
	copy.result.error = copy.error;
	at = unrecorded_find(unrecorded, event->result.seq);
	memmove(&unrecorded->items[at + 1], &unrecorded->items[at],
		(unrecorded->count - at) * sizeof(copy));
	unrecorded->items[at] = copy;
	unrecorded->count++;
	return 0;
}

void unrecorded_drop(struct unrecorded *unrecorded, int64_t seq)
{
	size_t at = unrecorded_find(unrecorded, seq);

	if (at == unrecorded->count || unrecorded->items[at].result.seq != seq)
		return;
	free(unrecorded->items[at].error);
	unrecorded->count--;
	memmove(&unrecorded->items[at], &unrecorded->items[at + 1],
		(unrecorded->count - at) * sizeof(unrecorded->items[0]));
}

void unrecorded_drop_recorded(struct unrecorded *unrecorded)
{
	size_t kept = 0;

	for (size_t i = 0; i < unrecorded->count; i++) {
		if (unrecorded->items[i].result.left_out)
			unrecorded->items[kept++] = unrecorded->items[i];
		else
			free(unrecorded->items[i].error);
	}
	unrecorded->count = kept;
	if (kept == 0)
		unrecorded_fini(unrecorded);
}
