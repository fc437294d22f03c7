/*
 * Where a look for due rows begins. A row that was claimed stays in the index of those that wait until no snapshot can
 * see it any more and a vacuum has come by. A look that began at the first row would step over all of them, each time,
 * and the longer any transaction is open in the database, the more of them there are. So it begins where the one before
 * it ended.
 *
 * Behind that place a row can become due all the same: when its transaction began before and committed after, or when
 * a claim that had it failed. So now and then a look is a full one, from the first row: while there is plenty, and
 * always before anything is called empty. Never for more than a small share of the time.
 *
 * Times of rows are milliseconds since 1970 by PostgreSQL's clock; -1 = from the first row. One thread.
 */
#ifndef DISPATCH_CLAIM_CURSOR_H
#define DISPATCH_CLAIM_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim_cursor {
	int64_t *items; /* by index of the partition in the admission */
	size_t count;
	int64_t full_at_ms; /* when the next full look is made, by our clock */
	int64_t soonest_ms; /* when it could be, if it is wanted */
};

void claim_cursor_fini(struct claim_cursor *cursor);
/* Everything from the first row again. */
void claim_cursor_forget(struct claim_cursor *cursor);
/* The next look is a full one. */
void claim_cursor_force_full(struct claim_cursor *cursor);
bool claim_cursor_is_full(const struct claim_cursor *cursor, int64_t now_ms);
int64_t claim_cursor_get(const struct claim_cursor *cursor, size_t index);
/* A look took rows of the partition, the last of which was due at `latest_ms`. Without memory the next one of it begins
 * at the first row. */
void claim_cursor_note(struct claim_cursor *cursor, size_t index, int64_t latest_ms, bool full);

struct due_scan {
	bool full;
	bool more_due; /* it brought as much as it may: more is there */
	int64_t took_ms;
	int64_t now_ms;
};
/* A look has ended, its rows are noted. */
void claim_cursor_finish_scan(struct claim_cursor *cursor, const struct due_scan *scan);

#endif
