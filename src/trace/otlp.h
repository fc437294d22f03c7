/*
 * Writes spans in the JSON of OTLP/HTTP (opentelemetry-proto, ExportTraceServiceRequest): ids in hexadecimal, times
 * as strings of nanoseconds, enumerations as numbers, attributes according to the semantic conventions of messaging.
 * Pure; one thread for each buffer.
 */
#ifndef TRACE_OTLP_H
#define TRACE_OTLP_H

#include "base/buf.h"
#include "trace/span.h"

/* The program that sends the spans. */
struct otlp_resource {
	const char *service;
	const char *instance;
};

void otlp_begin(struct buf *out, const struct otlp_resource *resource);
/* `first`: the span is the first one, so no comma is written. */
void otlp_add_span(struct buf *out, bool first, const struct span *span);
void otlp_end(struct buf *out);

#endif
