/*
 * The page behind a full one, read while the brokers answer for that one. It is the beginning of the next round, and
 * nothing else: the rows decide nothing before they are taken. Only the thread of the relay.
 */
#ifndef INGEST_RELAY_PAGE_AHEAD_H
#define INGEST_RELAY_PAGE_AHEAD_H

#include "store/outbox/relay_rows.h"

struct page_ahead {
	int64_t after;     /* the last seq of the full page; 0 = nothing is to be read */
	struct rows *rows; /* NULL = not read */
	int64_t read_ms;
};

/* Reads the page once, if one is to be read. If that fails, the next round reads it and reports the error. */
void page_ahead_read(struct page_ahead *ahead, struct db *db, struct relay_page page);
/* Gives the rows behind the tip to the caller. NULL: they were not read, there were none, or they are so old that an operator
 * may have discarded some of them. Nothing is left in any case. */
struct rows *page_ahead_take(struct page_ahead *ahead, int64_t tip);
void page_ahead_drop(struct page_ahead *ahead);

#endif
