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
	struct event *round;  /* something changed: scheduler, settler and claimer run once */
	struct event *linger; /* the verdicts have waited long enough for others */
};

/* True from the moment of the stop on: nothing new is delivered. */
bool context_is_stopping(const struct context *context);
/* Runs scheduler, settler and claimer once, when the events of this round of the loop are handled. */
void context_request_round(struct context *context);
/* Runs them after delay_ms at the latest. */
void context_request_round_in(struct context *context, int64_t delay_ms);
/* The same for verdicts that wait for more of them. A timer that runs already is not moved. */
void context_linger(struct context *context, int64_t delay_ms);

#endif
