/*
 * Implements rate.h with two counters. The current span is not over, so a part of the span before it counts, too: as
 * much of it as the current one lacks. No event is remembered by itself, and a record costs one addition.
 */
#include "base/time/rate.h"

void rate_init(struct rate *rate, int64_t wait_ms)
{
	*rate = (struct rate){ .span_ms = wait_ms * RATE_WAITS };
}

void rate_add(struct rate *rate, int64_t now_ms, int64_t count)
{
	int64_t age_ms = now_ms - rate->since_ms;

	if (age_ms >= rate->span_ms) {
		rate->before = age_ms < rate->span_ms * 2 ? rate->count : 0;
		rate->since_ms =
			age_ms < rate->span_ms * 2 ? rate->since_ms + rate->span_ms : now_ms;
		rate->count = 0;
	}
	rate->count += count;
}

int64_t rate_expected(const struct rate *rate, int64_t now_ms, int64_t within_ms)
{
	int64_t span_ms = rate->span_ms;
	int64_t age_ms = now_ms - rate->since_ms;
	int64_t recent;

	if (span_ms == 0 || age_ms >= span_ms * 2)
		return 0;
	recent = age_ms < span_ms ? rate->count + rate->before * (span_ms - age_ms) / span_ms
				  : rate->count * (span_ms * 2 - age_ms) / span_ms;
	return recent * within_ms / span_ms;
}
