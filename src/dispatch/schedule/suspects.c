/*
 * Suspects (rule R14): messages that were open when their connection ended, so that they may be the cause. A suspect is
 * delivered alone, in four steps:
 * 1. It reserves a connection (RESERVED). The connection gets no further message.
 * 2. It waits until that connection has no open delivery.
 * 3. Its crash count is raised in the table. If the sidecar itself dies now, the count survives.
 * 4. It is delivered. Any answer takes the raised count back; a lost connection keeps it.
 *
 * The connection, the partition or the place in the lane can be lost in each step. Then the suspect goes back to its
 * lane, and if its crash count is being raised, it does so when the worker has finished.
 */
#include "base/clock.h"
#include "dispatch/core.h"

void suspects_serve(struct session *session)
{
	struct dispatch *dispatch = session->dispatch;
	struct entry *entry = session->suspect;

	if (entry == NULL || session->open_count > 0 || entry->state != ENTRY_RESERVED ||
		entry->raising)
		return;
	if (!scheduler_has_lease(dispatch, clock_now_ms()))
		dispatch->suspects_need_lease = true;
	else if (entry->raised)
		delivery_send(session, &entry, 1);
	else
		settler_add_raise(dispatch, entry);
}

void suspects_resume(struct dispatch *dispatch)
{
	struct session *session;

	if (!dispatch->suspects_need_lease)
		return;
	dispatch->suspects_need_lease = false;
	TAILQ_FOREACH (session, &dispatch->sessions, link)
		suspects_serve(session);
}

static bool can_reserve(const struct session *session)
{
	return !session->draining && !session->closing && session->suspect == NULL &&
	       session->window > 0;
}

void suspects_reserve(struct dispatch *dispatch, struct handler *handler)
{
	struct session *session;
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&handler->suspects)) != NULL &&
		scheduler_allowance(dispatch, handler) > 0) {
		session = scheduler_least_busy(handler, can_reserve);
		if (session == NULL)
			return;
		handlers_dequeue(entry);
		entry->state = ENTRY_RESERVED;
		entry->session = session;
		session->suspect = entry;
		suspects_serve(session);
	}
}

static void unbind(struct entry *entry)
{
	if (entry->session != NULL)
		entry->session->suspect = NULL;
	entry->session = NULL;
}

void suspects_unreserve(struct dispatch *dispatch, struct session *session)
{
	struct entry *entry = session->suspect;

	session->suspect = NULL;
	if (entry == NULL || entry->state != ENTRY_RESERVED)
		return;
	unbind(entry);
	if (!entry->raising)
		entry_ready(dispatch, entry);
}

void suspects_recall(struct entry *entry)
{
	unbind(entry);
	if (!entry->raising)
		entry->state = ENTRY_QUEUED;
}

static bool is_ours(const struct dispatch *dispatch, const struct entry *entry)
{
	return admission_get(dispatch->options.admission, entry->partition).assigned;
}

/* The suspect lost its connection, its partition or its place as head while its crash count was raised. It returns to
 * its lane or to the table. */
static void return_to_lane(struct dispatch *dispatch, struct entry *entry)
{
	entry->state = ENTRY_QUEUED;
	if (dispatch_is_stopping(dispatch) || !is_ours(dispatch, entry))
		entry_return(dispatch, entry);
	else if (lanes_must_park(entry))
		entry_park(dispatch, entry);
	else if (lanes_is_head(entry))
		entry_ready(dispatch, entry);
}

void suspects_raised(struct dispatch *dispatch, struct entry *entry)
{
	if (entry->session == NULL || dispatch_is_stopping(dispatch)) {
		unbind(entry);
		return_to_lane(dispatch, entry);
		return;
	}
	suspects_serve(entry->session);
}

void suspects_release_of(struct dispatch *dispatch, struct session *session)
{
	if (session->suspect != NULL && session->suspect->state == ENTRY_RESERVED)
		suspects_unreserve(dispatch, session);
}

void suspects_release(struct dispatch *dispatch, size_t partition)
{
	struct session *session;

	TAILQ_FOREACH (session, &dispatch->sessions, link) {
		if (session->suspect != NULL &&
			(partition == SIZE_MAX || session->suspect->partition == partition))
			suspects_release_of(dispatch, session);
	}
}
