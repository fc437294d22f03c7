/*
 * How often something has happened of late: records that arrive, verdicts that are added. It decides whether a wait for
 * one more of them is worth its time. It counts within the last RATE_WAITS waits. So a wait that is longer is compared
 * with a longer past, and a single event never makes another one likely (rule R33).
 * Pure: the caller reads the monotonic clock. One thread.
 */
#ifndef BASE_TIME_RATE_H
#define BASE_TIME_RATE_H

#include <stdint.h>

#define RATE_WAITS 16

struct rate {
	int64_t span_ms; /* RATE_WAITS waits; 0 = nothing is expected, ever */
	int64_t since_ms;
	int64_t count;  /* since since_ms */
	int64_t before; /* in the span before it */
};

/* Nothing has happened yet. `wait_ms`: see above. */
void rate_init(struct rate *rate, int64_t wait_ms);
/* Something has happened `count` times until now. */
void rate_add(struct rate *rate, int64_t now_ms, int64_t count);
/* How often it happens in the next `within_ms` if it goes on as before, rounded down. */
int64_t rate_expected(const struct rate *rate, int64_t now_ms, int64_t within_ms);

#endif
