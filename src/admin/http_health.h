/*
 * Alive and ready: what /livez and /readyz answer, decided from what the threads last reported about
 * themselves. Pure but for reading atomics: any thread, no waiting, no clock of its own.
 *
 * Alive means a restart would not help: both loops go round. Ready means work makes progress: a
 * database that confirms heartbeats, a place in the group, a broker, and loops that get somewhere.
 */
#ifndef ADMIN_HTTP_HEALTH_H
#define ADMIN_HTTP_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/metrics.h"
#include "model/health.h"

/* A loop that has not gone round for so long hangs: longer than the ingest loop may wait for one statement
 * (30 s, and 2 s for libpq to give up). */
#define HEALTH_STALL_MS 45000

/* The input of the checks. Times are clock_now_ms(). */
struct health_view {
	const struct health *health;
	int64_t lease_ms;
	int64_t since_ms; /* the program's start: a loop has HEALTH_STALL_MS for its first round */
	int64_t now_ms;
};

/* Append {"alive":true} or {"alive":false,"reasons":[{"check":…,"detail":…},…]}, "ready" alike, and
 * return the same. While stopping it is alive: whoever stopped it waits for it, within a bound. */
bool health_alive(const struct health_view *view, struct buf *json);
bool health_ready(const struct health_view *view, struct buf *json);
/* The checks of health_ready() as metrics. */
void health_show(const struct health_view *view, struct metrics *metrics);

#endif
