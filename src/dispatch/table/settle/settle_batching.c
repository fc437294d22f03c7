/* See settle_batching.h. Two cases: with many messages under way, to wait longer makes larger transactions and delays
 * nobody; with few, or when messages need the settle before they can be delivered, the wait is short. */
#include "dispatch/table/settle/settle_batching.h"

/* True when few messages need this settle before they can be delivered: neither the next messages of many lanes, nor
 * messages for which max_in_flight has no room. */
static bool delays_few(const struct settle_batching *batching)
{
	return !batching->held_up && batching->stopping * 2 < batching->verdicts;
}

/* How many of the messages in memory have a verdict now, or can get one before the settle. */
static size_t expected(const struct settle_batching *batching)
{
	if (!delays_few(batching))
		return batching->in_flight;
	return batching->in_flight + batching->ready + batching->behind;
}

/* True when hundreds of verdicts will arrive within moments. */
static bool is_busy(const struct settle_batching *batching)
{
	return delays_few(batching) && expected(batching) >= SETTLE_BATCH_BUSY_FROM;
}

/* True when at least half of the expected verdicts are there: few more can arrive before the settle. */
static bool is_most(const struct settle_batching *batching)
{
	return batching->verdicts * 2 >= expected(batching);
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
