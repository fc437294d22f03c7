/*
 * Implements lease_clock.h.
 */
#include "lease/lease_clock.h"

int64_t lease_clock_interval_ms(const struct lease_clock *lease_clock)
{
	return lease_clock->lease_ms / HEARTBEATS_A_LEASE;
}

int64_t lease_clock_rest_ms(const struct lease_clock *lease_clock, int64_t now_ms)
{
	int64_t rest_ms = lease_clock->sent_ms + lease_clock_interval_ms(lease_clock) - now_ms;

	return rest_ms > 0 ? rest_ms : 0;
}

int64_t lease_clock_retry_ms(
	const struct lease_clock *lease_clock, int64_t began_ms, int64_t now_ms, int64_t delay_ms)
{
	int64_t rest_ms = began_ms + lease_clock_interval_ms(lease_clock) - now_ms;

	if (rest_ms < 0)
		return 0;
	return delay_ms < rest_ms ? delay_ms : rest_ms;
}

/* On time means: at most two intervals from the sending of the previous heartbeat to the answer of
 * this one. If the database was stopped in between, all instances had to wait. */
int lease_clock_answered(struct lease_clock *lease_clock, int64_t sent_ms, int64_t now_ms)
{
	bool on_time = lease_clock->sent_ms != 0 &&
		       now_ms - lease_clock->sent_ms < 2 * lease_clock_interval_ms(lease_clock);

	if (now_ms - sent_ms >= lease_clock->lease_ms)
		return HEARTBEAT_TOO_LATE;
	lease_clock->steady = on_time ? lease_clock->steady + 1 : 1;
	lease_clock->sent_ms = sent_ms;
	return 0;
}

void lease_clock_break(struct lease_clock *lease_clock)
{
	lease_clock->steady = 0;
}

bool lease_clock_is_steady(const struct lease_clock *lease_clock)
{
	return lease_clock->steady > HEARTBEATS_A_LEASE;
}
