/* See settle_batching.h. Two cases: with many messages under way, to wait longer makes larger transactions and delays
 * nobody; with few, the wait is short, because a key may wait for the settle (rule R25). */
#include "dispatch/table/settle/settle_batching.h"

/* True when hundreds of verdicts will arrive within moments, and few messages may need this settle before they can be
 * delivered: neither the next messages of many keys, nor messages for which max_in_flight has no room. */
static bool is_busy(const struct settle_batching *batching)
{
	size_t coming = batching->in_flight + batching->ready;

	return coming >= SETTLE_BATCH_BUSY_FROM && batching->behind < coming && !batching->held_up;
}

/* True when at least half of what is in flight has its verdict: few more verdicts can arrive before the settle. */
static bool is_most(const struct settle_batching *batching)
{
	return batching->verdicts * 2 >= batching->in_flight;
}

/* True when the verdicts are half of max_in_flight. The other half keeps the handlers busy during the settle. */
static bool is_half_of_all(const struct settle_batching *batching)
{
	return batching->verdicts * 2 >= batching->most;
}

bool settle_batching_is_due(const struct settle_batching *batching, int64_t now_ms)
{
	int64_t waited_ms = now_ms - batching->since_ms;

	if (batching->verdicts >= SETTLE_BATCH_FULL || batching->urgent)
		return true;
	if (is_busy(batching))
		return is_half_of_all(batching) || waited_ms >= SETTLE_BATCH_LONG_WAIT_MS;
	return is_most(batching) || waited_ms >= SETTLE_BATCH_WAIT_MS;
}
