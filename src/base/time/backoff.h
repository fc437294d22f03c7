/*
 * Exponential backoff with full jitter: the n-th delay is uniform in [0, min(max, first * 2^n)]. Pure: the caller
 * supplies the random number, so tests are deterministic. Any thread.
 */
#ifndef BASE_TIME_BACKOFF_H
#define BASE_TIME_BACKOFF_H

#include <stdint.h>

/* Upper bound of the delay before retry number `attempt` (0 = first), milliseconds. */
int64_t backoff_bound_ms(int64_t first_ms, int64_t max_ms, int attempt);

/* The delay itself; `random` is any 64-bit random number. */
int64_t backoff_delay_ms(int64_t first_ms, int64_t max_ms, int attempt, uint64_t random);

/* 64 random bits from the kernel (getrandom(2)), seeded per thread. */
uint64_t random_u64(void);

#endif
