#include "janitor/beats.h"

int64_t beats_interval_ms(const struct beats *beats)
{
	return beats->lease_ms / BEATS_A_LEASE;
}

/* On time: no more than two intervals from the sending of the one before to the answer of this one. A database
 * that stood still in between kept everybody waiting. */
int beats_answered(struct beats *beats, int64_t sent_ms, int64_t now_ms)
{
	bool on_time =
		beats->sent_ms != 0 && now_ms - beats->sent_ms < 2 * beats_interval_ms(beats);

	if (now_ms - sent_ms >= beats->lease_ms)
		return BEAT_TOO_LATE;
	beats->steady = on_time ? beats->steady + 1 : 1;
	beats->sent_ms = sent_ms;
	return 0;
}

void beats_break(struct beats *beats)
{
	beats->steady = 0;
}

bool beats_are_steady(const struct beats *beats)
{
	return beats->steady > BEATS_A_LEASE;
}
