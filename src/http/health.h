/*
 * The answers of /livez and /readyz, from what the threads reported last. Pure, except for reading
 * atomics: any thread, no waiting, no own clock.
 *
 * Alive means that a restart would not help: both loops make progress. Ready means that work makes
 * progress: the database confirms heartbeats, the group has assigned partitions, a broker is
 * reachable, and records are stored.
 */
#ifndef HTTP_HEALTH_H
#define HTTP_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "report/health.h"
#include "report/metrics.h"

/* A loop without progress for so long hangs. It is longer than the ingest loop may wait for one
 * statement (30 s, and 2 s until libpq gives up). */
#define HEALTH_STALL_MS 45000

/* The input of the checks. Times are clock_now_ms(). */
struct health_view {
	const struct health *health;
	int64_t lease_ms;
	int64_t since_ms; /* the start of the program: a loop has HEALTH_STALL_MS for its first round */
	int64_t now_ms;
};

/* Append {"alive":true} or {"alive":false,"reasons":[{"check":…,"detail":…},…]}, or the same with
 * "ready", and return the value. A stopping process is alive, because its stop has a time limit. health_ready() also
 * appends "notes":["…"] about what is wrong and no reason to be not ready. */
bool health_alive(const struct health_view *view, struct buf *json);
bool health_ready(const struct health_view *view, struct buf *json);
/* The checks of health_ready() as metrics. */
void health_show(const struct health_view *view, struct metrics *metrics);

#endif
