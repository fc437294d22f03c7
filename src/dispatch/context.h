/*
 * What all rooms of dispatch share: the options, whether dispatch is stopping, and the request for a round of the
 * loop. It is the lowest part of dispatch and calls no other one. Dispatch thread only; nothing here blocks or fails.
 */
#ifndef DISPATCH_CONTEXT_H
#define DISPATCH_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatch/dispatch.h"

struct event;

/* Period of the timer that checks deadlines, polls and retries. */
#define TICK_MS 20

/* PHASE_STOP: nothing new is delivered, open deliveries may finish. PHASE_OVER: the loop ends. */
enum phase { PHASE_RUN, PHASE_STOP, PHASE_OVER };

struct context {
	struct dispatch_options options;
	enum phase phase;
	struct event *round; /* something changed: scheduler, settler and claimer run once */
	struct event *later; /* the same, after a wait */
	int64_t later_ms;    /* when `later` is due, if it is pending */
};

/* True from the moment of the stop on: nothing new is delivered. */
bool context_is_stopping(const struct context *context);
/* Runs scheduler, settler and claimer once, when the events of this round of the loop are handled. */
void context_request_round(struct context *context);
/* Runs them after delay_ms at the latest. Of several requests the earliest counts, and the others are forgotten: what waits
 * longer requests the rest of its time again in that round. */
void context_request_round_in(struct context *context, int64_t delay_ms);

#endif
