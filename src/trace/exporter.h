/*
 * The thread that sends what is in the ring: at most 512 spans a request, one request at a time, half full or
 * once a second. What the collector could not take now (429, 5xx, no connection, no answer in five seconds) stays
 * in the ring and is sent again after a pause that grows to 30 s; what it refuses (any other code) is dropped.
 */
#ifndef TRACE_EXPORTER_H
#define TRACE_EXPORTER_H

#include "trace/ring.h"
#include "trace/trace.h"

#define EXPORT_MOST 512 /* spans a request */

struct exporter;

/* Keeps the ring. */
int exporter_start(struct exporter **out, const struct trace_options *options, struct ring *ring,
	struct err *err);
/* There are enough for a request. Any thread. */
void exporter_poke(struct exporter *exporter);
/* A second at most. NULL is nothing. */
void exporter_stop(struct exporter *exporter);

#endif
