/* See settle_batching.h. With few verdicts in a second there is no wait: no other verdict would come in time. Otherwise
 * there are two cases: with many messages under way, to wait longer makes larger transactions and delays
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
	bool busy = is_busy(batching);
	int64_t most_ms = busy ? SETTLE_BATCH_LONG_WAIT_MS : SETTLE_BATCH_WAIT_MS;
	int64_t coming = rate_expected(batching->rate, now_ms, most_ms);

	if (batching->verdicts >= SETTLE_BATCH_FULL || batching->urgent || coming == 0 ||
		now_ms - batching->since_ms >= most_ms)
		return true;
	if (busy)
		return is_half_of_all(batching);
	return is_most(batching) || (batching->prompt && coming < SETTLE_BATCH_MANY);
}
