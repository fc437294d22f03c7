/*
 * Implements http_process.h.
 */
#include "http/process.h"

#include "base/clock.h"
#include "base/process.h"
#include "report/meters.h"

static void set(struct metrics *metrics, enum meter meter, double value)
{
	if (value >= 0)
		metric_set(metrics_get(metrics, meter, NULL, NULL), value);
}

void http_process_began(struct metrics *metrics)
{
	set(metrics, METER_PROCESS_START, (double)clock_wall_ms() / 1000.0);
}

void http_process_look(struct metrics *metrics)
{
	struct process_usage usage;

	process_usage(&usage);
	set(metrics, METER_PROCESS_CPU, usage.cpu_s);
	set(metrics, METER_PROCESS_RESIDENT, usage.resident_bytes);
	set(metrics, METER_PROCESS_VIRTUAL, usage.virtual_bytes);
	set(metrics, METER_PROCESS_FDS, usage.open_fds);
	set(metrics, METER_PROCESS_MAX_FDS, usage.max_fds);
}
