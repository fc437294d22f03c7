/*
 * Chooses between the two text formats by the Accept header (RFC 9110 section 12.5.1). Pure. Any
 * thread.
 */
#ifndef HTTP_ACCEPT_H
#define HTTP_ACCEPT_H

#include <stdbool.h>

/* True when the Accept header (NULL = none) names OpenMetrics 1.0 and does not prefer text/plain. A
 * wildcard selects the Prometheus text. */
bool http_accepts_openmetrics(const char *accept);

#endif
