/*
 * The claim cursor: the time (`available_at`) at which a scan for due rows begins, for each stream.
 *
 * PostgreSQL keeps the index entry of a row that was claimed until no snapshot can see the old version and a vacuum
 * has removed it. A scan from the first entry would read all these entries each time. The longer any transaction
 * is open in the database, the more of them there are. So a scan begins where the last one ended.
 *
 * A row can still become due before that place: its transaction began earlier and committed later, or the claim
 * that took it failed. So a full scan, from the first entry, is made now and then while many rows are due, and
 * always before a stream counts as drained. Full scans take only a small share of the time.
 *
 * Times of rows are milliseconds since 1970 by PostgreSQL's clock; -1 means from the first entry. Pure. One thread.
 * Without memory for a stream its scans are full.
 */
#ifndef DISPATCH_TABLE_CLAIMS_CLAIM_CURSOR_H
#define DISPATCH_TABLE_CLAIMS_CLAIM_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim_cursor {
	int64_t *items; /* by index of the stream in the admission */
	size_t count;
	int64_t full_at_ms; /* when the next full scan is made, by clock_now_ms() */
	int64_t soonest_ms; /* the earliest time for it, if a scan finds nothing */
};

void claim_cursor_fini(struct claim_cursor *cursor);
/* Forgets all places: the next scan of each stream begins at the first row. */
void claim_cursor_forget(struct claim_cursor *cursor);
/* The next scan is a full one. */
void claim_cursor_force_full(struct claim_cursor *cursor);
bool claim_cursor_is_full(const struct claim_cursor *cursor, int64_t now_ms);
int64_t claim_cursor_get(const struct claim_cursor *cursor, size_t index);
/* A scan took rows of the stream. The last of them was due at `latest_ms`. */
void claim_cursor_note(struct claim_cursor *cursor, size_t index, int64_t latest_ms, bool full);

struct due_scan {
	bool full;
	bool more_due; /* it reached its row or byte limit: more rows are due */
	int64_t took_ms;
	int64_t now_ms;
};
/* A scan has ended and its rows are noted. Decides when the next full scan is made. */
void claim_cursor_finish_scan(struct claim_cursor *cursor, const struct due_scan *scan);

#endif
