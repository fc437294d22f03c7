/*
 * The page behind a full one. It is read while the brokers answer for the full one, and sent in the next round. Nothing is
 * decided about its rows before that. Only the thread of the relay.
 */
#ifndef INGEST_RELAY_PAGE_AHEAD_H
#define INGEST_RELAY_PAGE_AHEAD_H

#include "store/outbox/relay_rows.h"

struct page_ahead {
	int64_t after;     /* the last seq of the full page; 0 = nothing is to be read */
	struct rows *rows; /* NULL = not read */
	int64_t read_ms;
};

/* Reads the page once, if one is to be read. If that fails, the next round tries it again and reports an error. */
void page_ahead_read(struct page_ahead *ahead, struct db *db, struct relay_page page);
/* Gives the rows behind the tip to the caller. NULL: they were not read, there were none, or they were read more than a second
 * ago, so that an operator may have discarded some of them. The object is empty afterwards. */
struct rows *page_ahead_take(struct page_ahead *ahead, int64_t tip);
void page_ahead_drop(struct page_ahead *ahead);

#endif
