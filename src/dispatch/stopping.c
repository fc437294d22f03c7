/*
 * Stops dispatch without losing a verdict (guarantee G9):
 * 1. Messages that are not delivered go back to the table at once.
 * 2. Open deliveries may finish until LAST_SETTLES_MS before the deadline. Then they are cancelled and go back.
 * 3. The loop ends when ingest has ended and everything is settled, or at the deadline.
 *
 * Verdicts that are set aside do not delay the stop, nor do those behind them; a rescue gives their rows back. dispatch_abandon() settles
 * nothing: the lease is lost, and the rows belong to other instances.
 */
#include <event2/event.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/loop.h"

#define LAST_SETTLES_MS 1000 /* the time before the deadline for settling cancelled deliveries */

static void cancel_open(struct dispatch *dispatch, const char *reason)
{
	deliveries_cancel_all(&dispatch->schedule, reason);
	sessions_check_drained(&dispatch->sessions);
}

static void begin_stop(struct dispatch *dispatch)
{
	dispatch->context.phase = PHASE_STOP;
	log_info("dispatch_stopping", LOG_INT("held", dispatch->order.entry_count),
		LOG_INT("in_flight", dispatch->order.queues.in_flight[MESSAGES]),
		LOG_STR("next", "queued messages go back to waiting, delivered ones may finish"));
	FAULT_POINT("before_give_back");
	suspects_release(&dispatch->schedule, true);
	entries_return_undelivered(&dispatch->order, true);
	refused_verdicts_hurry(&dispatch->table.settler);
	context_request_round(&dispatch->context);
}

static bool is_at_rest(const struct dispatch *dispatch)
{
	const struct table *table = &dispatch->table;
	size_t kept = table->settler.refused_count + dispatch->order.verdicts.deferred;

	return dispatch->order.entry_count == kept && settler_is_empty(table) &&
	       table->claimer.claims_under_way == 0 &&
	       dispatch->sessions.leased.under_way_count == 0 &&
	       STAILQ_EMPTY(&dispatch->arrivals.waiting) &&
	       queue_length(dispatch->context.options.in) == 0;
}

void stopping_check(struct dispatch *dispatch, int64_t now_ms)
{
	struct requests *requests = &dispatch->requests;
	enum phase *phase = &dispatch->context.phase;
	int64_t deadline = atomic_load(&requests->deadline_ms);

	if (atomic_load(&requests->abandon)) {
		cancel_open(dispatch, "lease_lost");
		*phase = PHASE_OVER;
	} else if (atomic_load(&requests->stop) && *phase == PHASE_RUN) {
		begin_stop(dispatch);
	}
	if (*phase == PHASE_STOP && now_ms >= deadline - LAST_SETTLES_MS)
		cancel_open(dispatch, "shutdown");
	if (*phase == PHASE_STOP && atomic_load(&requests->may_end) &&
		(is_at_rest(dispatch) || now_ms >= deadline))
		*phase = PHASE_OVER;
	if (*phase == PHASE_OVER)
		(void)event_base_loopexit(dispatch->base, NULL);
}
