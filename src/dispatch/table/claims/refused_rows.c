/* See refused_rows.h. An array of at most REFUSED_ROWS_MOST rows; the pause of a row doubles with each refusal. */
#include "dispatch/table/claims/refused_rows.h"

#include <stdlib.h>

#define FAILURES_MOST  3
#define FIRST_PAUSE_MS 2000
#define LAST_PAUSE_MS  60000LL
#define DOUBLINGS_MOST 10

void refused_rows_fini(struct refused_rows *rows)
{
	free(rows->items);
	*rows = (struct refused_rows){ NULL };
}

void refused_rows_failed(struct refused_rows *rows, bool maybe_row)
{
	if (!maybe_row)
		rows->failures = 0;
	else if (rows->failures < FAILURES_MOST)
		rows->failures++;
}

/* Forgets rows whose pause ended long ago without another refusal: a claim has taken them. */
static void forget_old(struct refused_rows *rows, int64_t now_ms)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (now_ms < rows->items[i].until_ms + 2 * LAST_PAUSE_MS)
			rows->items[kept++] = rows->items[i];
	}
	rows->count = kept;
}

bool refused_rows_should_probe(struct refused_rows *rows, int64_t now_ms)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct refused_row *row = &rows->items[i];

		rows->again |= row->until_ms <= now_ms && row->at_ms < row->until_ms;
		if (row->until_ms <= now_ms)
			row->at_ms = row->until_ms; /* each end of a pause counts once */
	}
	forget_old(rows, now_ms);
	return rows->again || rows->failures == FAILURES_MOST;
}

void refused_rows_probed(struct refused_rows *rows)
{
	rows->again = false;
	rows->failures = 0;
}

static struct refused_row *find(struct refused_rows *rows, int64_t seq)
{
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->items[i].seq == seq)
			return &rows->items[i];
	}
	return NULL;
}

static struct refused_row *oldest(struct refused_rows *rows)
{
	struct refused_row *found = &rows->items[0];

	for (size_t i = 1; i < rows->count; i++) {
		if (rows->items[i].at_ms < found->at_ms)
			found = &rows->items[i];
	}
	return found;
}

/* The item for one more row. NULL: no memory. */
static struct refused_row *place(struct refused_rows *rows)
{
	if (rows->items == NULL)
		rows->items = calloc(REFUSED_ROWS_MOST, sizeof(*rows->items));
	if (rows->items == NULL)
		return NULL;
	return rows->count == REFUSED_ROWS_MOST ? oldest(rows) : &rows->items[rows->count++];
}

int64_t refused_rows_note(struct refused_rows *rows, int64_t seq, int64_t now_ms, bool *first)
{
	struct refused_row *row = find(rows, seq);
	int64_t pause;

	*first = row == NULL;
	if (row == NULL) {
		row = place(rows);
		if (row == NULL)
			return 0;
		*row = (struct refused_row){ .seq = seq };
	}
	pause = (int64_t)FIRST_PAUSE_MS
		<< (row->tries < DOUBLINGS_MOST ? row->tries : DOUBLINGS_MOST);
	pause = pause < LAST_PAUSE_MS ? pause : LAST_PAUSE_MS;
	row->tries++;
	row->at_ms = now_ms;
	row->until_ms = now_ms + pause;
	return pause;
}

size_t refused_rows_each(const struct refused_rows *rows, int64_t now_ms,
	void (*visit)(void *arg, int64_t seq), void *arg)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (rows->items[i].until_ms <= now_ms)
			continue;
		count++;
		if (visit != NULL)
			visit(arg, rows->items[i].seq);
	}
	return count;
}
