/*
 * Decides which heartbeats count, and from when the lease counts. PostgreSQL records a heartbeat
 * after it was sent and before it is answered. If the lease counts from the sending, it never ends
 * later here than for other instances. The answer may be later than the lease, if this
 * process or its host was stopped. Pure. One thread.
 */
#ifndef LEASE_LEASE_CLOCK_H
#define LEASE_LEASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HEARTBEATS_A_LEASE 3

struct lease_clock {
	int64_t lease_ms;
	int64_t sent_ms; /* sending time of the last heartbeat that counts; 0: none */
	int steady;      /* consecutive heartbeats on time */
};

int64_t lease_clock_interval_ms(const struct lease_clock *lease_clock);
/* How long until the next heartbeat is due, counted from the sending of the last one that counts; 0: it is due. */
int64_t lease_clock_rest_ms(const struct lease_clock *lease_clock, int64_t now_ms);
/* The pause after a heartbeat that began at began_ms and failed: delay_ms, but the next one begins at the latest an interval after
 * this one began, however long it took. */
int64_t lease_clock_retry_ms(
	const struct lease_clock *lease_clock, int64_t began_ms, int64_t now_ms, int64_t delay_ms);
/* The heartbeat sent at sent_ms is answered now. HEARTBEAT_TOO_LATE: its lease has expired, so it
 * does not count. */
enum { HEARTBEAT_TOO_LATE = 1 };
int lease_clock_answered(struct lease_clock *lease_clock, int64_t sent_ms, int64_t now_ms);
/* A statement failed: the next heartbeat starts a new sequence. */
void lease_clock_break(struct lease_clock *lease_clock);
/* The heartbeats were on time for a whole lease, so this instance may fence others (rule R4). */
bool lease_clock_is_steady(const struct lease_clock *lease_clock);

#endif
