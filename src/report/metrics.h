/*
 * Counters, gauges and histograms, rendered as Prometheus text (exposition format 0.0.4) or OpenMetrics 1.0. The
 * caller supplies the families as a table. Any thread. To change a metric is one atomic operation on a series, which
 * the caller looks up once and keeps.
 */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define METRICS_MAX_SERIES 10000 /* in one family */
#define METRIC_LABELS      3

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family {
	const char *name; /* as rendered, with _total on counters */
	enum metric_kind kind;
	const char *help;
	const char *labels[METRIC_LABELS]; /* label names; NULL when fewer */
	const double *bounds; /* histograms: ascending upper bounds in seconds, ended by 0 */
};

struct metrics;
/* One series: a family with its label values. It lives as long as the metrics, or until metrics_remove(). */
struct metric;

/* Keeps `families`. Families without labels exist from the start. */
int metrics_new(
	struct metrics **out, const struct metric_family *families, size_t count, struct err *err);
void metrics_free(struct metrics *metrics);

/* The series of families[family] with these label values (UTF-8, copied; NULL for labels that the family does not
 * have). A label with the value "" is not rendered, which means the same to Prometheus. The series is created at the
 * first call. Takes a lock, so keep the result. Never NULL: without memory, or above METRICS_MAX_SERIES, the result is a
 * series that is not rendered. */
struct metric *metrics_series(
	struct metrics *metrics, size_t family, const char *const asked[METRIC_LABELS]);
/* The same for families with at most two labels. */
struct metric *metrics_get(
	struct metrics *metrics, size_t family, const char *value1, const char *value2);
/* Stops rendering a series, for example of a revoked partition, until metrics_get() is called for it again. It keeps
 * its value, and pointers to it stay valid. */
void metrics_drop(struct metrics *metrics, size_t family, const char *value1, const char *value2);
/* Removes a series, which has no pointer to it any more. A series that is used again begins at 0. */
void metrics_remove(struct metrics *metrics, size_t family, const char *const asked[METRIC_LABELS]);
/* Stops rendering the series whose label values do not pass `keep`, which must not use the metrics. */
void metrics_keep(struct metrics *metrics, size_t family,
	bool (*keep)(const char *const values[METRIC_LABELS], const void *arg), const void *arg);

/* For counters and gauges. A counter ignores a negative n. */
void metric_add(struct metric *metric, int64_t n);
/* For gauges, and for counters whose value is counted elsewhere, for example by the kernel. */
void metric_set(struct metric *metric, double value);
/* For histograms. A negative value, which two clocks can yield, counts as 0. */
void metric_observe(struct metric *metric, double seconds);
/* The value of a counter or gauge (a histogram: its count), for /status and tests. */
double metric_value(const struct metric *metric);
/* The sum of the values of all series of the family that are rendered. */
double metrics_sum(struct metrics *metrics, size_t family);

/* Appends every family, series sorted by their label values: the same state is the same text. */
void metrics_render(struct metrics *metrics, bool openmetrics, struct buf *out);

#endif
