/*
 * The clocks of this host, for waits and measurements only. Leases, schedules and stored times use PostgreSQL's
 * clock, because hosts may disagree. Any thread; nothing blocks.
 */
#ifndef BASE_TIME_CLOCK_H
#define BASE_TIME_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds on the monotonic clock. */
int64_t clock_now_us(void);

/* Milliseconds on the monotonic clock. */
int64_t clock_now_ms(void);

/* `ms` milliseconds from now, for condition variables that use CLOCK_MONOTONIC. */
struct timespec clock_deadline(int64_t ms);

/* Milliseconds since 1970 on this host's wall clock: only for output to people. */
int64_t clock_wall_ms(void);
/* The same in microseconds. */
int64_t clock_wall_us(void);

/* "2026-11-21T05:42:00.000Z" for milliseconds since 1970 (RFC 3339). `out` has room for 32 bytes. */
void clock_format_ms(int64_t unix_ms, char out[32]);

#endif
