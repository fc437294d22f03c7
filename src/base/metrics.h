/*
 * Counters, gauges and histograms in the sidecar's memory, rendered as Prometheus text
 * (exposition format 0.0.4) or OpenMetrics 1.0. Knows no metric by name: the families come as a
 * table. Any thread; the hot calls are single atomic operations on a series the caller looked up
 * once and kept.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define METRICS_MAX_SERIES 10000 /* of one family */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family {
	const char *name; /* as rendered, with _total on counters */
	enum metric_kind kind;
	const char *help;
	const char *labels[2]; /* label names; NULL when fewer */
	const double *bounds;  /* histograms: ascending upper bounds in seconds, ended by 0 */
};

struct metrics;
struct metric; /* one series: a family with its label values; lives as long as the metrics */

/* Keeps `families`. Families without labels exist from the start. */
int metrics_new(
	struct metrics **out, const struct metric_family *families, size_t count, struct err *err);
void metrics_free(struct metrics *metrics);

/* The series of families[family] with these label values (UTF-8, copied; NULL where the family has
 * none), made on first use. Takes a lock: look up once and keep the result. Never NULL: when memory
 * or the limit of METRICS_MAX_SERIES a family is exhausted, a series that is not rendered. */
struct metric *metrics_get(
	struct metrics *metrics, size_t family, const char *value1, const char *value2);
/* Stops rendering a series (a partition that went away) until it is got again; it keeps its value,
 * and whoever kept it may go on writing to it. */
void metrics_drop(struct metrics *metrics, size_t family, const char *value1, const char *value2);

/* Counters and gauges; a counter never falls, so a negative n does nothing to it. */
void metric_add(struct metric *metric, int64_t n);
/* Gauges, and counters that somebody else keeps, such as the kernel. */
void metric_set(struct metric *metric, double value);
/* Histograms. Less than nothing (two clocks that disagree) counts as nothing. */
void metric_observe(struct metric *metric, double seconds);
/* The value of a counter or gauge (a histogram: its count), for /status and tests. */
double metric_value(const struct metric *metric);

/* Appends every family, series sorted by their label values: the same state is the same text. */
void metrics_render(struct metrics *metrics, bool openmetrics, struct buf *out);

#endif
