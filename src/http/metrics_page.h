/*
 * The answer of /metrics: all metrics of the program, with the process_* metrics under the names of
 * Prometheus' own clients and the checks of /readyz. These are read when a scraper asks; other
 * threads set the rest. The HTTP thread; does not wait.
 */
#ifndef HTTP_METRICS_PAGE_H
#define HTTP_METRICS_PAGE_H

#include <stdbool.h>

#include "base/buf.h"
#include "http/health.h"
#include "report/metrics.h"

/* Call it once: records the start of the process, approximately now. */
void metrics_page_begin(struct metrics *metrics);
/* Appends the page in the format that the Accept header (NULL = none) prefers; returns its type. */
const char *metrics_page_add(struct buf *body, const char *accept, struct metrics *metrics,
	const struct health_view *view);

/* True when the Accept header names OpenMetrics 1.0 and does not prefer text/plain (RFC 9110 section
 * 12.5.1). A wildcard selects the Prometheus text. Pure. */
bool http_accepts_openmetrics(const char *accept);

#endif
