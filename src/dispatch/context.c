/* See context.h. The requests are events of libevent, so any number of them in one round leads to one more round. */
#include "dispatch/context.h"

#include <event2/event.h>

bool context_is_stopping(const struct context *context)
{
	return context->phase != PHASE_RUN;
}

static void set_timer(struct event *event, int64_t delay_ms)
{
	struct timeval in = { .tv_sec = delay_ms / 1000, .tv_usec = (delay_ms % 1000) * 1000 };

	(void)event_add(event, &in);
}

void context_request_round(struct context *context)
{
	event_active(context->round, EV_TIMEOUT, 0);
}

void context_request_round_in(struct context *context, int64_t delay_ms)
{
	set_timer(context->round, delay_ms);
}

void context_linger(struct context *context, int64_t delay_ms)
{
	if (!event_pending(context->linger, EV_TIMEOUT, NULL))
		set_timer(context->linger, delay_ms);
}
