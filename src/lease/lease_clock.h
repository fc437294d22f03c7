/*
 * Which heartbeats count, and since when. PostgreSQL notes a heartbeat after it was sent and before it is
 * answered, so a lease that counts from the sending is never longer here than for the others. The answer may
 * be late by as much as a statement may take, which is longer than a lease. Pure. One thread.
 */
#ifndef LEASE_LEASE_CLOCK_H
#define LEASE_LEASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HEARTBEATS_A_LEASE 3

struct lease_clock {
	int64_t lease_ms;
	int64_t sent_ms; /* when the last one that counts was sent; 0: none */
	int steady;      /* that were on time, in a row */
};

int64_t lease_clock_interval_ms(const struct lease_clock *lease_clock);
/* The heartbeat sent then is answered now. HEARTBEAT_TOO_LATE: after its own lease; it does not count. */
enum { HEARTBEAT_TOO_LATE = 1 };
int lease_clock_answered(struct lease_clock *lease_clock, int64_t sent_ms, int64_t now_ms);
/* A statement failed: what comes does not follow on. */
void lease_clock_break(struct lease_clock *lease_clock);
/* They were on time for a whole lease: others may be fenced (rule R4). */
bool lease_clock_are_steady(const struct lease_clock *lease_clock);

#endif
