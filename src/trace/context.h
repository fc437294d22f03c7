/*
 * The trace of a message and the ids of its spans. Pure; any thread; no allocation.
 *
 * Every id is computed from the message, so all threads and sidecars get the same ids without communication. The
 * trace id is that of the header `traceparent` (W3C Trace Context) or, without one, a hash of source and event id. A
 * span id is a hash of the trace, the coordinates of the record and the number of the claim.
 */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/message/message.h"

enum span_kind { SPAN_RECEIVE, SPAN_STORE, SPAN_DELIVER, SPAN_SETTLE };

struct trace_context {
	uint64_t trace_high; /* the trace id, big-endian halves */
	uint64_t trace_low;
	uint64_t parent; /* the span of the producer; 0 = none */
	uint64_t seed;   /* the span ids of this message are computed from it */
};

/* False if the message is not traced: the sampled flag of its traceparent is not set, or its trace is not selected.
 * One trace of `one_in` is selected, by its id. */
bool trace_context_of(struct trace_context *out, const struct message *message, int64_t one_in);

/* The id of a span, never 0. `number`: the number of the claim for deliver and settle, 0 for other spans. */
uint64_t trace_span_id(const struct trace_context *context, enum span_kind kind, int64_t number);

/* Reads the traceparent from the headers of a message: its ids into `out`, whose other fields do not change, and its
 * flag into `sampled`. False if there is none or it is not valid. ce_traceparent has precedence. The last of a
 * repeated header counts. */
bool trace_parent_of(struct trace_context *out, struct bytes headers, bool *sampled);

#endif
