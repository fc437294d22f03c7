#include "dispatch/due_starts.h"

#include <stdlib.h>

#define FIRST_ROW     (-1)
#define FULL_EVERY_MS 1000 /* while there is plenty */
#define FULL_PACE     20   /* never for more than a twentieth of the time */
#define SOONEST_PACE  4    /* to call it empty: a fifth */
#define TOOK_MOST_MS  1000 /* what it took longer it waited for a lock, or the machine was busy */

void due_starts_fini(struct due_starts *starts)
{
	free(starts->items);
	*starts = (struct due_starts){ NULL };
}

void due_starts_forget(struct due_starts *starts)
{
	for (size_t i = 0; i < starts->count; i++)
		starts->items[i] = FIRST_ROW;
	due_starts_hurry(starts);
}

void due_starts_hurry(struct due_starts *starts)
{
	starts->full_at_ms = 0;
}

bool due_starts_is_full(const struct due_starts *starts, int64_t now_ms)
{
	return now_ms >= starts->full_at_ms;
}

int64_t due_starts_get(const struct due_starts *starts, size_t index)
{
	return index < starts->count ? starts->items[index] : FIRST_ROW;
}

static bool make_room(struct due_starts *starts, size_t count)
{
	int64_t *items;

	if (count <= starts->count)
		return true;
	items = realloc(starts->items, count * sizeof(*items));
	if (items == NULL)
		return false;
	starts->items = items;
	while (starts->count < count)
		starts->items[starts->count++] = FIRST_ROW;
	return true;
}

/* A full look may have found rows behind the place: then they are gone on with. */
void due_starts_note(struct due_starts *starts, size_t index, int64_t latest_ms, bool full)
{
	if (!make_room(starts, index + 1))
		return;
	if (full || latest_ms > starts->items[index])
		starts->items[index] = latest_ms;
}

void due_starts_looked(struct due_starts *starts, const struct due_look *look)
{
	int64_t took_ms = look->took_ms < TOOK_MOST_MS ? look->took_ms : TOOK_MOST_MS;
	int64_t pause_ms = took_ms * FULL_PACE;

	if (look->full) {
		starts->full_at_ms =
			look->now_ms + (pause_ms > FULL_EVERY_MS ? pause_ms : FULL_EVERY_MS);
		starts->soonest_ms = look->now_ms + took_ms * SOONEST_PACE;
	} else if (!look->plenty && starts->soonest_ms < starts->full_at_ms) {
		starts->full_at_ms = starts->soonest_ms;
	}
}
