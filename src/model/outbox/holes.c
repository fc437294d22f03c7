/*
 * Implements holes.h: a sorted array. Most holes are added at its end and removed at its beginning.
 */
#include "model/outbox/holes.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define FIRST_ROOM 16

void holes_fini(struct holes *holes)
{
	free(holes->items);
	holes->items = NULL;
	holes->count = 0;
	holes->room = 0;
}

void holes_clear(struct holes *holes)
{
	holes->count = 0;
}

/* The index of the first hole that ends at `seq` or later. */
static size_t find(const struct holes *holes, int64_t seq)
{
	size_t low = 0;
	size_t high = holes->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (holes->items[middle].last < seq)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The later of two bounds; unknown is later than any. */
static int64_t later(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return 0;
	return a > b ? a : b;
}

/* Joins each hole with its neighbour, so that half of them are left. */
static void join_neighbours(struct holes *holes)
{
	size_t kept = 0;

	for (size_t i = 0; i < holes->count; i += 2) {
		struct hole joined = holes->items[i];

		if (i + 1 < holes->count) {
			joined.last = holes->items[i + 1].last;
			joined.bound = later(joined.bound, holes->items[i + 1].bound);
		}
		holes->items[kept++] = joined;
	}
	holes->count = kept;
}

static int make_room(struct holes *holes)
{
	size_t room = holes->room == 0 ? FIRST_ROOM : holes->room * 2;
	struct hole *items;

	if (holes->count < holes->room)
		return 0;
	items = realloc(holes->items, room * sizeof(*items));
	if (items == NULL)
		return FAULT_MEMORY;
	holes->items = items;
	holes->room = room;
	return 0;
}

static void insert(struct holes *holes, size_t at, struct hole hole)
{
	memmove(&holes->items[at + 1], &holes->items[at],
		(holes->count - at) * sizeof(holes->items[0]));
	holes->items[at] = hole;
	holes->count++;
}

static void drop(struct holes *holes, size_t at)
{
	holes->count--;
	memmove(&holes->items[at], &holes->items[at + 1],
		(holes->count - at) * sizeof(holes->items[0]));
}

/* Adds the part of the range in front of the hole at `*at`; the rest, which this hole covers or which lies behind it,
 * is left in *first. */
static int add_piece(struct holes *holes, int64_t *first, int64_t last)
{
	size_t at;
	struct hole piece = { *first, last, 0 };

	if (holes->count >= holes->most)
		join_neighbours(holes);
	at = find(holes, *first);
	if (at < holes->count && holes->items[at].first <= *first) {
		*first = holes->items[at].last + 1;
		return 0;
	}
	if (at < holes->count && holes->items[at].first <= last)
		piece.last = holes->items[at].first - 1;
	if (make_room(holes) < 0)
		return FAULT_MEMORY;
	insert(holes, at, piece);
	*first = piece.last + 1;
	return 0;
}

int holes_add(struct holes *holes, int64_t first, int64_t last)
{
	int r = 0;

	while (r == 0 && first <= last)
		r = add_piece(holes, &first, last);
	return r;
}

void holes_bound(struct holes *holes, int64_t transaction)
{
	for (size_t i = 0; i < holes->count; i++) {
		if (holes->items[i].bound == 0)
			holes->items[i].bound = transaction;
	}
}

/* Without room for a second part the hole stays whole, as a joined one would. */
void holes_fill(struct holes *holes, int64_t seq)
{
	size_t at = find(holes, seq);
	struct hole *hole = &holes->items[at];
	struct hole behind;

	if (at == holes->count || hole->first > seq)
		return;
	if (hole->first == seq && hole->last == seq) {
		drop(holes, at);
	} else if (hole->first == seq) {
		hole->first++;
	} else if (hole->last == seq) {
		hole->last--;
	} else if (holes->count < holes->most && make_room(holes) == 0) {
		behind = holes->items[at];
		behind.first = seq + 1;
		holes->items[at].last = seq - 1;
		insert(holes, at + 1, behind);
	}
}

void holes_give_up(struct holes *holes, int64_t xmin, int64_t first, int64_t last)
{
	size_t kept = 0;

	for (size_t i = 0; i < holes->count; i++) {
		const struct hole *hole = &holes->items[i];

		if (hole->first < first || hole->last > last || hole->bound == 0 ||
			hole->bound > xmin)
			holes->items[kept++] = *hole;
	}
	holes->count = kept;
}

int64_t holes_lowest(const struct holes *holes, int64_t none)
{
	return holes->count == 0 ? none : holes->items[0].first;
}
