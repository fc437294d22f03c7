/*
 * A transaction costs nearly the same for one verdict as for hundreds, so verdicts wait a moment for batching. Whether
 * they have waited enough is decided here. Pure; any thread.
 */
#ifndef DISPATCH_SETTLE_BATCHING_H
#define DISPATCH_SETTLE_BATCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTLE_BATCH_FULL         1000 /* more cost no less for each */
#define SETTLE_BATCH_WAIT_MS      5
#define SETTLE_BATCH_LONG_WAIT_MS 20
#define SETTLE_BATCH_BUSY_FROM    256 /* delivered and not settled, or about to be delivered */

struct settle_batching {
	size_t verdicts;  /* that wait */
	size_t in_flight; /* delivered and not settled, those that wait among them */
	size_t most;      /* that may be: inbox.max_in_flight */
	size_t ready;     /* to be delivered next */
	/* Messages in memory that can only be delivered after others are settled. */
	size_t behind;
	/* Some are ready for which max_in_flight has no room, and no settle is under way that makes some. */
	bool held_up;
	int64_t since_ms; /* when the first of the verdicts came */
};

/* True when they are settled now. Else it is to be asked again after SETTLE_BATCH_WAIT_MS at the latest. */
bool settle_batching_is_due(const struct settle_batching *batching, int64_t now_ms);

#endif
