/*
 * Which trace a message belongs to, and the ids of its spans. Pure; any thread; no allocation.
 *
 * Every id follows from the message, so that the threads and sidecars that see it agree without talking: the
 * trace is that of the header `traceparent` (W3C Trace Context), else one made of source and event id; a span's
 * id is made of those, of the record's place and of the claim's number.
 */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/message.h"

enum span_kind { SPAN_RECEIVE, SPAN_STORE, SPAN_DELIVER, SPAN_SETTLE };

struct trace_context {
	uint64_t trace_high; /* the trace id, big-endian halves */
	uint64_t trace_low;
	uint64_t parent; /* the span that came in; 0 = none */
	uint64_t seed;   /* of the ids of this message's spans */
};

/* False when the message is not to be traced: its traceparent says so (the sampled flag is not set), or its
 * trace is not the one in `one_in`, which its id decides. */
bool trace_context_of(struct trace_context *out, const struct message *message, int64_t one_in);

/* The id of a span, never 0. `number`: of the claim, for deliver and settle; 0 for the others. */
uint64_t trace_span_id(const struct trace_context *context, enum span_kind kind, int64_t number);

/* The traceparent of a message's headers, into `out` (its ids; the rest is left alone) and `sampled`. False when
 * there is none or it is not one. ce_traceparent goes first; the last of a repeated header counts. */
bool trace_parent_of(struct trace_context *out, struct bytes headers, bool *sampled);

#endif
