/*
 * Settles verdicts in batches. Each update requires (claimed_by, delivery_count) of the claim, so
 * that a settle whose claim is gone changes nothing (rules R7 to R9). A settle waits at most 100 ms
 * for a locked row, whatever lock_timeout_ms of the db is, and then skips it. Blocking; one db, one
 * thread: a worker's.
 */
#ifndef STORE_CLAIMS_SETTLE_H
#define STORE_CLAIMS_SETTLE_H

#include "store/pg/db.h"

enum settle_outcome {
	SETTLE_PROCESSED = 0,
	SETTLE_DEAD = 1,
	SETTLE_WAITING = 2, /* claimable again after delay_ms */
	SETTLE_PARKED = 3,  /* waits behind its key or for a handler */
};

enum settle_status {
	SETTLE_OPEN,    /* not settled: the call failed; try again */
	SETTLE_SETTLED, /* the verdict is committed */
	/* the row is already processed under this claim: by inbox.complete(), or by an earlier
	 * settle whose answer was lost */
	SETTLE_COMPLETED,
	SETTLE_LOCKED, /* the handler's transaction holds the row lock: try again later (rule R8) */
	SETTLE_LOST,   /* the claim is gone: drop the message */
	/* PostgreSQL refuses this row whatever the values are: try again later, alone */
	SETTLE_REFUSED,
	SETTLE_BEHIND, /* not settled: an earlier row of its lane is locked, refused or lost (rule R25) */
	/* an event of the row is wrong: nothing is settled, and its verdict must change */
	SETTLE_UNEMITTED,
};

struct settle_row {
	int64_t seq;
	int delivery_count;
	enum settle_outcome outcome;
	bool plain; /* PROCESSED, and nothing else to write but the handler: the fast statement */
	int group;  /* internal: which of the fast statements */
	int place;  /* internal: in the list */
	uint64_t lane; /* its rows are committed in the order of the list; 0 = no order */
	int64_t delay_ms;
	int retry_count; /* new values */
	int crash_count;
	bool suspect;
	const char *error; /* NULL leaves the column unchanged; borrowed */
	const char *error_code;
	const char *handler; /* handler of the delivery; borrowed; NULL = none */
	bool follows;        /* an earlier row of its lane is in the list */
	bool repeated; /* an earlier settle of it may be committed, because its answer was lost */
	bool expects_completed; /* its handler says so: this is checked before anything else is written */
	struct bytes result; /* JSON for jsonb; missing leaves the column unchanged */
	/* Events that a PROCESSED row emits in the order of the list: a JSON array for jsonb; missing = none */
	struct bytes emit;
	enum settle_status status; /* result */
	/* result, SETTLE_COMPLETED: inbox.complete() has completed the row, so its events are not stored */
	bool events_dropped;
	/* result, SETTLE_REFUSED and SETTLE_UNEMITTED: why; NULL = no memory; the caller frees it */
	struct err *refusal;
};

/*
 * Settles all rows in one transaction and sets each status. Two claims of one row may occur. When only
 * some rows can be settled, no row is settled before an earlier one of its lane. The exception is
 * a trigger of the user that hides updates: then the order of a lane is not checked (settle.c). A
 * value that PostgreSQL cannot store is replaced by a note with the reason, and the verdict is kept
 * (rule R9); finding that value takes more than one transaction. Events are stored in the transaction of their row or
 * not at all. If PostgreSQL refuses them, only their row is left out: UNEMITTED if an event is wrong, and REFUSED
 * if something else refuses the event, for example a trigger of the user. After a fault every status is
 * SETTLE_OPEN and the rows may or may not be settled; it is safe to settle them again, because the
 * settle names its claim.
 */
int settle_run(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);
/*
 * The same after earlier attempts failed with an error that may concern one row
 * (db_error_may_be_row()). The list is halved until such a row is alone, and the other rows are
 * settled. `err` keeps the error of the last refused row, although the result is 0. If each of
 * several rows is refused, the result is a fault, because then the rows are not the cause.
 */
int settle_isolate(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);
/* Raises crash_count of rows before they are delivered alone, so that a crash of the whole host
 * counts as well. Status SETTLED: deliver the row; any other status: do not. A call repeated after
 * a fault may count twice. Isolates rows like settle_isolate(). */
int settle_raise(
	struct db *db, int32_t instance, struct settle_row *rows, size_t count, struct err *err);

#endif
