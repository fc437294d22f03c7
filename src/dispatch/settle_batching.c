#include "dispatch/settle_batching.h"

/* So much is under way that hundreds of verdicts come in a moment, and little waits for a settle: neither the next
 * of many keys, nor what max_in_flight has no room for. */
static bool is_busy(const struct settle_batching *batching)
{
	size_t coming = batching->in_flight + batching->ready;

	return coming >= SETTLE_BATCH_BUSY_FROM && batching->behind < coming && !batching->held_up;
}

/* Most of what is in flight waits here: little more can come before it is settled. */
static bool is_most(const struct settle_batching *batching)
{
	return batching->verdicts * 2 >= batching->in_flight;
}

/* The other half of what may be in flight keeps the handlers busy meanwhile. */
static bool is_half_of_all(const struct settle_batching *batching)
{
	return batching->verdicts * 2 >= batching->most;
}

bool settle_batching_is_due(const struct settle_batching *batching, int64_t now_ms)
{
	int64_t waited_ms = now_ms - batching->since_ms;

	if (batching->verdicts >= SETTLE_BATCH_FULL)
		return true;
	if (is_busy(batching))
		return is_half_of_all(batching) || waited_ms >= SETTLE_BATCH_LONG_WAIT_MS;
	return is_most(batching) || waited_ms >= SETTLE_BATCH_WAIT_MS;
}
