/*
 * Implements page_ahead.h.
 */
#include "ingest/relay/page_ahead.h"

#include "base/time/clock.h"

#define OLD_MS 1000

void page_ahead_drop(struct page_ahead *ahead)
{
	rows_freep(&ahead->rows);
	*ahead = (struct page_ahead){ .rows = NULL };
}

void page_ahead_read(struct page_ahead *ahead, struct db *db, struct relay_page page)
{
	struct err err = ERR_INIT;

	if (ahead->after == 0 || ahead->rows != NULL)
		return;
	page.after = ahead->after;
	ahead->read_ms = clock_now_ms();
	if (relay_read(db, &page, &ahead->rows, &err) != 0)
		page_ahead_drop(ahead);
}

struct rows *page_ahead_take(struct page_ahead *ahead, int64_t tip)
{
	struct rows *rows = NULL;

	if (ahead->rows != NULL && rows_count(ahead->rows) > 0 && ahead->after == tip &&
		clock_now_ms() - ahead->read_ms < OLD_MS) {
		rows = ahead->rows;
		ahead->rows = NULL;
	}
	page_ahead_drop(ahead);
	return rows;
}
