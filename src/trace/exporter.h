/*
 * The thread that sends the spans of the ring. A request has at most 512 spans; it is sent when 512 wait, or once a
 * second. One request is under way at a time. If the collector cannot accept it now (429, 5xx, no connection, no
 * answer within five seconds), the spans stay in the ring and are sent again after a pause that grows to 30 s. If it
 * refuses them (any other code), they are dropped.
 */
#ifndef TRACE_EXPORTER_H
#define TRACE_EXPORTER_H

#include "trace/ring.h"
#include "trace/trace.h"

#define EXPORT_MOST 512 /* spans in one request */

struct exporter;

/* Keeps the ring. */
int exporter_start(struct exporter **out, const struct trace_options *options, struct ring *ring,
	struct err *err);
/* Enough spans for a request are in the ring. Any thread; does not block. */
void exporter_poke(struct exporter *exporter);
/* Stops the thread, within a second. NULL is allowed. */
void exporter_stop(struct exporter *exporter);

#endif
