/* See pauses.h. There are few pauses, so a search reads them all. */
#include "model/admission/pauses.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[PAUSE_KINDS] = {
	[PAUSE_TOPIC] = "topic",
	[PAUSE_CONSUMER] = "consumer",
	[PAUSE_HANDLER] = "handler",
};

const char *pause_kind_name(enum pause_kind kind)
{
	return kinds[kind];
}

enum pause_kind pause_kind_of(const char *name)
{
	int kind = 0;

	while (kind < PAUSE_KINDS && strcmp(kinds[kind], name) != 0)
		kind++;
	return (enum pause_kind)kind;
}

void pauses_fini(struct pauses *pauses)
{
	for (size_t i = 0; i < pauses->count; i++)
		free(pauses->items[i].name);
	free(pauses->items);
	*pauses = (struct pauses){ NULL, 0 };
}

bool pauses_add(struct pauses *pauses, enum pause_kind kind, const char *name, bool ingest)
{
	struct pause *items = realloc(pauses->items, (pauses->count + 1) * sizeof(*items));
	char *copy = strdup(name);

	if (items != NULL)
		pauses->items = items;
	if (items == NULL || copy == NULL) {
		free(copy);
		return false;
	}
	items[pauses->count++] = (struct pause){ kind, copy, ingest };
	return true;
}

bool pauses_copy(struct pauses *out, const struct pauses *from)
{
	*out = (struct pauses){ NULL, 0 };
	for (size_t i = 0; i < from->count; i++) {
		const struct pause *item = &from->items[i];

		if (!pauses_add(out, item->kind, item->name, item->ingest)) {
			pauses_fini(out);
			return false;
		}
	}
	return true;
}

const struct pause *pauses_find(const struct pauses *pauses, enum pause_kind kind, const char *name)
{
	for (size_t i = 0; i < pauses->count; i++) {
		if (pauses->items[i].kind == kind && strcmp(pauses->items[i].name, name) == 0)
			return &pauses->items[i];
	}
	return NULL;
}

bool pauses_equal(const struct pauses *a, const struct pauses *b)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++)
		equal = a->items[i].kind == b->items[i].kind &&
			a->items[i].ingest == b->items[i].ingest &&
			strcmp(a->items[i].name, b->items[i].name) == 0;
	return equal;
}
