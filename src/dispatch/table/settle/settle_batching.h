/*
 * Settle batching: decides whether the verdicts that wait are written now, or wait for more of them. A transaction
 * costs nearly the same for one verdict as for hundreds. The wait is bounded by SETTLE_BATCH_WAIT_MS, or by
 * SETTLE_BATCH_LONG_WAIT_MS while so much is in flight that no handler waits for the settle. There is no wait while not
 * even one more verdict is expected within it (rule R33). Pure; any thread.
 */
#ifndef DISPATCH_TABLE_SETTLE_SETTLE_BATCHING_H
#define DISPATCH_TABLE_SETTLE_SETTLE_BATCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time/rate.h"

#define SETTLE_BATCH_FULL         1000 /* a larger transaction makes a verdict no cheaper */
#define SETTLE_BATCH_WAIT_MS      5
#define SETTLE_BATCH_LONG_WAIT_MS 20
#define SETTLE_BATCH_BUSY_FROM    256 /* messages in flight or ready */
#define SETTLE_BATCH_MANY         16  /* verdicts in SETTLE_BATCH_WAIT_MS */

struct settle_batching {
	size_t verdicts;  /* verdicts that wait */
	size_t in_flight; /* messages delivered and not settled, including those with a verdict */
	size_t most;      /* inbox.max_in_flight */
	size_t ready;     /* messages that are delivered next */
	/* Messages in memory that are neither in flight nor ready. Most of them wait for the answer to an earlier
	 * message of their lane. */
	size_t behind;
	/* Of `verdicts`: those that stop their lane until they are committed, with messages behind them (rule R25). */
	size_t stopping;
	/* Messages are ready for which max_in_flight has no room, and no settle runs that would make room. */
	bool held_up;
	/* A lane waits until inboxd has read whether the row is completed, and its next message could be delivered then; or
	 * it has half of the unsettled verdicts that it may have (rule R25). */
	bool urgent;
	/* Somebody waits for a verdict: messages behind it in its lane that could be delivered then, a claim of its row,
	 * or the new owner of its partition. So it does not wait for others, unless SETTLE_BATCH_MANY of them are expected: where most verdicts
	 * are of this kind, these transactions would be small at full speed. */
	bool prompt;
	const struct rate *rate; /* of verdicts; borrowed */
	int64_t since_ms;        /* when the first of the verdicts arrived */
};

/* True when the verdicts must be settled now. Otherwise call it again after SETTLE_BATCH_WAIT_MS at the latest. */
bool settle_batching_is_due(const struct settle_batching *batching, int64_t now_ms);

#endif
