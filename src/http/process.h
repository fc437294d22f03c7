/*
 * The process_* metrics, with the names of Prometheus' own clients.
 */
#ifndef HTTP_PROCESS_H
#define HTTP_PROCESS_H

#include "base/metrics.h"

/* Call it once: records the start of the process, approximately now. */
void http_process_began(struct metrics *metrics);
/* Call it before each scrape, on the HTTP thread; does not wait. A value that the kernel did not
 * report stays unchanged. */
void http_process_look(struct metrics *metrics);

#endif
