/* See context.h. The requests are events of libevent, so any number of them in one round leads to one more round. */
#include "dispatch/context.h"

#include <event2/event.h>

#include "base/time/clock.h"

bool context_is_stopping(const struct context *context)
{
	return context->phase != PHASE_RUN;
}

void context_request_round(struct context *context)
{
	event_active(context->round, EV_TIMEOUT, 0);
}

/* Not the event `round`: a round at once ends its timer, and a timer takes back a round that is requested. */
void context_request_round_in(struct context *context, int64_t delay_ms)
{
	const struct timeval in = { .tv_sec = delay_ms / 1000,
		.tv_usec = (delay_ms % 1000) * 1000 };
	const int64_t at_ms = clock_now_ms() + delay_ms;

	if (event_pending(context->later, EV_TIMEOUT, NULL) && context->later_ms <= at_ms)
		return;
	context->later_ms = at_ms;
	(void)event_add(context->later, &in);
}
