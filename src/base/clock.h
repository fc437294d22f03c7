/*
 * Time on this host, for waits and measurements only. Leases, schedules and everything that is
 * stored come from PostgreSQL's clock. Any thread.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds on the monotonic clock. */
int64_t clock_now_us(void);

/* Milliseconds on the monotonic clock. */
int64_t clock_now_ms(void);

/* So many milliseconds from now, for waits on conditions that use CLOCK_MONOTONIC. */
struct timespec clock_deadline(int64_t ms);

/* Milliseconds since 1970 on this host's wall clock: for people only. */
int64_t clock_wall_ms(void);
/* The same in microseconds. */
int64_t clock_wall_us(void);

/* "2026-11-21T05:42:00.000Z" for milliseconds since 1970 (RFC 3339). `out` has room for 32 bytes. */
void clock_format_ms(int64_t unix_ms, char out[32]);

#endif
