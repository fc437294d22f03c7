/*
 * Settling verdicts in batches, each fenced by (claimed_by, delivery_count) (rules R7 to R9).
 * Blocking; one db, one thread: a worker's. A settle waits for a locked row 100 ms, whatever
 * the db's lock_timeout_ms, and then leaves it alone.
 */
#ifndef STORE_SETTLE_H
#define STORE_SETTLE_H

#include "store/db.h"

enum settle_outcome {
	SETTLE_PROCESSED = 0,
	SETTLE_DEAD = 1,
	SETTLE_WAITING = 2, /* claimable again after delay_ms */
	SETTLE_PARKED = 3,  /* waits behind its key, or for a handler */
};

enum settle_status {
	SETTLE_OPEN,    /* not settled yet: the call failed, try again */
	SETTLE_SETTLED, /* the verdict is committed */
	SETTLE_COMPLETED, /* it is processed under our claim: by inbox.complete(), by an earlier settle
			   * whose answer was lost, or by this one when others of the list were not ours */
	SETTLE_LOCKED,    /* its handler's transaction holds the row: try again later (rule R8) */
	SETTLE_LOST,      /* no longer our claim: forget it */
	SETTLE_REFUSED, /* PostgreSQL refuses this row alone, whatever is written: try again later, alone */
};

struct settle_row {
	int64_t seq;
	int delivery_count;
	enum settle_outcome outcome;
	bool plain; /* PROCESSED with nothing but the handler to write: the fast statement */
	int group;  /* which of the fast statements; not the caller's business */
	int64_t delay_ms;
	int retry_count; /* new values */
	int crash_count;
	bool suspect;
	const char *error; /* NULL keeps; borrowed */
	const char *error_code;
	const char *handler;       /* who had it; borrowed; NULL = nobody */
	struct bytes result;       /* JSON for jsonb; absent keeps */
	enum settle_status status; /* out */
};

/* Settles all rows in one transaction and sets each status; no seq may be in it twice. A value
 * PostgreSQL cannot store is replaced by a note of why, the verdict stands (rule R9); finding it takes
 * more than one transaction. On a fault every status is SETTLE_OPEN and the rows may or may not be
 * settled: settling again is safe. */
int settle_run(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);
/* The same for rows of which one may be why earlier tries failed (db_error_may_be_row()): the list is halved until such a
 * row is alone, the others are settled, and `err` keeps what was said of the last one although the result is 0. A fault
 * when each of several rows is refused: then it is not the rows. */
int settle_isolate(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);
/* Counts a crash on rows about to be delivered alone. Status SETTLED: deliver it; any other as above:
 * don't. Raising again after a fault may count twice. Isolates rows as settle_isolate() does. */
int settle_raise(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);

#endif
