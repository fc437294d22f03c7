/* The process_* metrics, as Prometheus' own clients have them. */
#ifndef ADMIN_HTTP_PROCESS_H
#define ADMIN_HTTP_PROCESS_H

#include "base/metrics.h"

/* Once: notes when the process began; now, near enough. */
void http_process_began(struct metrics *metrics);
/* Before each scrape. The HTTP thread; does not wait. What the kernel did not tell stays as it was. */
void http_process_look(struct metrics *metrics);

#endif
