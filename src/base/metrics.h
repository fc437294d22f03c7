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

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family {
	const char *name;      /* as rendered, with _total on counters */
	enum metric_kind kind;
	const char *help;
	const char *labels[2]; /* label names; NULL when fewer */
	const double *bounds;  /* histograms: ascending upper bounds in seconds, ended by 0 */
};

struct metrics;
struct metric; /* one series: a family with its label values; lives as long as the metrics */

/* Keeps `families`. Families without labels exist from the start. */
int metrics_new(struct metrics **out, const struct metric_family *families, size_t count,
	struct err *err);
void metrics_free(struct metrics *metrics);

/* The series of families[family] with these label values (NULL where the family has none), made on
 * first use. Never NULL: when memory or the limit of 10,000 series a family is exhausted, a series
 * that is not rendered. */
struct metric *metrics_get(struct metrics *metrics, size_t family, const char *value1,
	const char *value2);
/* Stops rendering a series (a partition that went away) until it is got again. */
void metrics_drop(struct metrics *metrics, size_t family, const char *value1, const char *value2);

void metric_add(struct metric *metric, int64_t n);
void metric_set(struct metric *metric, double value);
void metric_observe(struct metric *metric, double seconds);
/* The value of a counter or gauge (a histogram: its count), for /status and tests. */
double metric_value(const struct metric *metric);

void metrics_render(struct metrics *metrics, bool openmetrics, struct buf *out);

#endif
