/* See locked_rows.h. The searches are linear: there are a few, and usually none. */
#include "ingest/relay/locked_rows.h"

#include <stdlib.h>

void locked_rows_fini(struct locked_rows *locked)
{
	free(locked->items);
	*locked = (struct locked_rows){ NULL, 0 };
}

int locked_rows_add(struct locked_rows *locked, const struct relay_result *results, size_t count,
	struct err *err)
{
	struct relay_result *items;
	size_t added = 0;

	for (size_t i = 0; i < count; i++)
		added += results[i].locked;
	if (added == 0)
		return 0;
	items = realloc(locked->items, (locked->count + added) * sizeof(*items));
	if (items == NULL)
		return err_memory(err);
	locked->items = items;
	for (size_t i = 0; i < count; i++) {
		if (results[i].locked)
			items[locked->count++] = results[i];
	}
	return 0;
}

void locked_rows_drop_recorded(struct locked_rows *locked)
{
	size_t kept = 0;

	for (size_t i = 0; i < locked->count; i++) {
		if (locked->items[i].locked)
			locked->items[kept++] = locked->items[i];
	}
	locked->count = kept;
	if (kept == 0)
		locked_rows_fini(locked);
}

bool locked_rows_has(const struct locked_rows *locked, int64_t seq)
{
	for (size_t i = 0; i < locked->count; i++) {
		if (locked->items[i].seq == seq)
			return true;
	}
	return false;
}
