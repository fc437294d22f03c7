/* See claim_cursor.h. The state is one time for each stream, and the time of the next full scan. */
#include "dispatch/table/claims/claim_cursor.h"

#include <stdlib.h>

#define FIRST_ROW     (-1)
#define FULL_EVERY_MS 1000 /* a full scan this often, while many rows are due */
#define FULL_PACE     20   /* these take at most a twentieth of the time ... */
#define SOONEST_PACE  4    /* ... and those that show that nothing is due, at most a fifth */
#define TOOK_MOST_MS  1000 /* a scan that took longer waited for a lock or a busy machine */

void claim_cursor_fini(struct claim_cursor *cursor)
{
	free(cursor->items);
	*cursor = (struct claim_cursor){ NULL };
}

void claim_cursor_forget(struct claim_cursor *cursor)
{
	for (size_t i = 0; i < cursor->count; i++)
		cursor->items[i] = FIRST_ROW;
	claim_cursor_force_full(cursor);
}

void claim_cursor_force_full(struct claim_cursor *cursor)
{
	cursor->full_at_ms = 0;
}

bool claim_cursor_is_full(const struct claim_cursor *cursor, int64_t now_ms)
{
	return now_ms >= cursor->full_at_ms;
}

int64_t claim_cursor_get(const struct claim_cursor *cursor, size_t index)
{
	return index < cursor->count ? cursor->items[index] : FIRST_ROW;
}

static bool make_room(struct claim_cursor *cursor, size_t count)
{
	int64_t *items;

	if (count <= cursor->count)
		return true;
	items = realloc(cursor->items, count * sizeof(*items));
	if (items == NULL)
		return false;
	cursor->items = items;
	while (cursor->count < count)
		cursor->items[cursor->count++] = FIRST_ROW;
	return true;
}

/* A full scan can end before the place of the last scan: it found rows there, and the next scan continues with them. */
void claim_cursor_note(struct claim_cursor *cursor, size_t index, int64_t latest_ms, bool full)
{
	if (!make_room(cursor, index + 1))
		return;
	if (full || latest_ms > cursor->items[index])
		cursor->items[index] = latest_ms;
}

void claim_cursor_finish_scan(struct claim_cursor *cursor, const struct due_scan *scan)
{
	int64_t took_ms = scan->took_ms < TOOK_MOST_MS ? scan->took_ms : TOOK_MOST_MS;
	int64_t pause_ms = took_ms * FULL_PACE;

	if (scan->full) {
		cursor->full_at_ms =
			scan->now_ms + (pause_ms > FULL_EVERY_MS ? pause_ms : FULL_EVERY_MS);
		cursor->soonest_ms = scan->now_ms + took_ms * SOONEST_PACE;
	} else if (!scan->more_due && cursor->soonest_ms < cursor->full_at_ms) {
		cursor->full_at_ms = cursor->soonest_ms;
	}
}
