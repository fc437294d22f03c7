/*
 * The delays before retries. See backoff.h. With full jitter, many instances that lost one server do not come back at
 * the same moment. The backoff of a message is chosen in dispatch/order/retry_policy.c.
 */
#include "base/time/backoff.h"

#include <stddef.h>
#include <sys/random.h>

#include "base/time/clock.h"

int64_t backoff_bound_ms(int64_t first_ms, int64_t max_ms, int attempt)
{
	int64_t bound = first_ms > 0 ? first_ms : 0;

	while (attempt-- > 0 && bound < max_ms)
		bound = bound > max_ms / 2 ? max_ms : bound * 2;
	return bound < max_ms ? bound : max_ms;
}

int64_t backoff_delay_ms(int64_t first_ms, int64_t max_ms, int attempt, uint64_t random)
{
	uint64_t bound = (uint64_t)backoff_bound_ms(first_ms, max_ms, attempt);

	return (int64_t)(random % (bound + 1));
}

/* splitmix64 (a public domain algorithm). Its quality is sufficient for jitter and instance ids. Each thread has its
 * own seed, so no lock is needed. */
uint64_t random_u64(void)
{
	static _Thread_local uint64_t state;
	static _Thread_local int seeded;
	uint64_t z;

	if (!seeded) {
		if (getrandom(&state, sizeof(state), 0) != (ssize_t)sizeof(state))
			state = (uint64_t)clock_now_us() ^ (uint64_t)(uintptr_t)&state;
		seeded = 1;
	}
	z = (state += 0x9e3779b97f4a7c15ULL);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}
