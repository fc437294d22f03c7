/*
 * Stops dispatch without losing a verdict (guarantee G9):
 * 1. Messages that are not delivered go back to the table at once.
 * 2. Open deliveries may finish until LAST_SETTLES_MS before the deadline. Then they are cancelled and go back.
 * 3. The loop ends when ingest has ended and everything is settled, or at the deadline.
 *
 * Verdicts that are set aside do not delay the stop; a rescue gives their rows back. dispatch_abandon() settles
 * nothing: the lease is lost, and the rows belong to other instances.
 */
#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/core.h"
#include "dispatch/table/settle_retries.h"

#define LAST_SETTLES_MS 1000 /* the time before the deadline for settling cancelled deliveries */

static void cancel_open(struct dispatch *dispatch, const char *reason)
{
	struct session *session;
	struct entry *entry;

	TAILQ_FOREACH (session, &dispatch->sessions, link) {
		while ((entry = TAILQ_FIRST(&session->open)) != NULL) {
			session_cancel(session, entry, reason);
			entry_return(dispatch, entry);
		}
	}
}

static void begin_stop(struct dispatch *dispatch)
{
	dispatch->phase = PHASE_STOP;
	log_info("dispatch_stopping", LOG_INT("held", dispatch->entry_count),
		LOG_INT("in_flight", dispatch->in_flight),
		LOG_STR("next", "queued messages go back to waiting, delivered ones may finish"));
	FAULT_POINT("before_give_back");
	suspects_release(dispatch, SIZE_MAX);
	entries_return_undelivered(dispatch, SIZE_MAX);
	settle_retries_hurry(dispatch);
	dispatch_schedule(dispatch);
}

static bool is_at_rest(const struct dispatch *dispatch)
{
	return dispatch->entry_count == dispatch->settler.retries_count &&
	       settler_is_empty(&dispatch->settler) && dispatch->claimer.claims_under_way == 0 &&
	       STAILQ_EMPTY(&dispatch->arrivals) && queue_length(dispatch->options.in) == 0;
}

void stopping_check(struct dispatch *dispatch, int64_t now_ms)
{
	int64_t deadline = atomic_load(&dispatch->deadline_ms);

	if (atomic_load(&dispatch->abandon)) {
		cancel_open(dispatch, "lease_lost");
		dispatch->phase = PHASE_OVER;
	} else if (atomic_load(&dispatch->stop) && dispatch->phase == PHASE_RUN) {
		begin_stop(dispatch);
	}
	if (dispatch->phase == PHASE_STOP && now_ms >= deadline - LAST_SETTLES_MS)
		cancel_open(dispatch, "shutdown");
	if (dispatch->phase == PHASE_STOP && atomic_load(&dispatch->may_end) &&
		(is_at_rest(dispatch) || now_ms >= deadline))
		dispatch->phase = PHASE_OVER;
	if (dispatch->phase == PHASE_OVER)
		(void)event_base_loopexit(dispatch->base, NULL);
}
