/*
 * Delivers the READY messages of each handler to its least busy connection that has room. Room is limited by:
 * - the window of the connection,
 * - inbox.max_in_flight, of which one handler leaves a tenth to others,
 * - the bytes that the connection has not read yet.
 *
 * A silent connection (a delivery timed out, and no line has arrived since) gets one message at a time, until it sends
 * any line, even an answer that is too late. Without that rule a process that hangs would have the fewest open messages
 * after each timeout, and would get the next ones. During one more timeout the other connections come first.
 *
 * Without a valid lease nothing is delivered.
 */
#include "base/clock.h"
#include "dispatch/core.h"

#define BATCH_LIMIT 1000 /* messages in one deliver_batch */
/* Bytes of the messages in one deliver_batch; a single message may be larger. Escaping makes a key up to six times as
 * long, and the line must stay below PROTOCOL_MAX_LINE. */
#define BATCH_BYTES ((size_t)PROTOCOL_MAX_LINE / 8)

static size_t window_of(const struct session *session)
{
	return session->silent_ms != 0 && session->window > 1 ? 1 : session->window;
}

static bool has_room(const struct session *session)
{
	return !session->draining && !session->closing && session->suspect == NULL &&
	       session->open_count < window_of(session) &&
	       session_unsent(session) < OUTPUT_MAX_BYTES;
}

static bool is_deprioritized(const struct session *session)
{
	return session->silent_ms != 0 && clock_now_ms() - session->silent_ms < session->timeout_ms;
}

static bool is_better(const struct session *session, const struct session *best)
{
	bool last = is_deprioritized(session);

	if (best == NULL || last != is_deprioritized(best))
		return best == NULL || !last;
	return session->open_count < best->open_count;
}

struct session *scheduler_least_busy(
	const struct handler *handler, bool (*fits)(const struct session *))
{
	struct session *best = NULL;
	struct session *session;

	TAILQ_FOREACH (session, &handler->sessions, group_link) {
		if (fits(session) && is_better(session, best))
			best = session;
	}
	return best;
}

size_t scheduler_allowance(const struct dispatch *dispatch, const struct handler *handler)
{
	size_t most = (size_t)dispatch->options.config->inbox.max_in_flight;
	size_t share =
		handlers_has_others(dispatch, handler) ? handlers_share((int64_t)most) : most;

	if (dispatch->in_flight >= most || handler->in_flight >= share)
		return 0;
	most -= dispatch->in_flight;
	share -= handler->in_flight;
	return most < share ? most : share;
}

/* An incomplete batch waits for more messages until batch_wait_ms after its first message was ready. */
static bool batch_is_due(struct session *session, size_t count, int64_t now_ms)
{
	if (count >= session->batch_max || session->batch_wait_ms == 0)
		return true;
	if (session->batch_since_ms == 0) {
		session->batch_since_ms = now_ms;
		dispatch_schedule_in(session->dispatch, session->batch_wait_ms);
	}
	return now_ms - session->batch_since_ms >= session->batch_wait_ms;
}

static size_t batch_size(const struct dispatch *dispatch, const struct session *session)
{
	size_t count = scheduler_allowance(dispatch, session->handler);
	size_t room = window_of(session) - session->open_count;

	if (count > room)
		count = room;
	if (count > session->handler->ready_count)
		count = session->handler->ready_count;
	if (count > session->batch_max)
		count = session->batch_max;
	return count < BATCH_LIMIT ? count : BATCH_LIMIT;
}

/* Takes at most `count` entries from the queue, but at least one. Returns how many. */
static size_t gather(struct handler *handler, struct entry **entries, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		entries[i] = TAILQ_FIRST(&handler->ready);
		bytes += entries[i]->message->bytes;
		if (i > 0 && bytes > BATCH_BYTES)
			return i;
		handlers_dequeue(entries[i]);
	}
	return count;
}

/* Sends one deliver or deliver_batch line to the least busy connection. False: nothing can be delivered now. */
static bool deliver_next(struct dispatch *dispatch, struct handler *handler, int64_t now_ms)
{
	struct session *session = scheduler_least_busy(handler, has_room);
	struct entry *entries[BATCH_LIMIT];
	size_t count;

	if (session == NULL)
		return false;
	count = batch_size(dispatch, session);
	if (count == 0 || !batch_is_due(session, count, now_ms))
		return false;
	session->batch_since_ms = 0;
	count = gather(handler, entries, count);
	delivery_send(session, entries, count);
	return true;
}

bool scheduler_has_lease(const struct dispatch *dispatch, int64_t now_ms)
{
	return now_ms - atomic_load(&dispatch->options.health->heartbeat_ms) <
	       dispatch->options.config->worker.lease;
}

void scheduler_run(struct dispatch *dispatch, int64_t now_ms)
{
	struct handler *handler;
	bool moved = true;

	if (dispatch_is_stopping(dispatch) || atomic_load(&dispatch->options.health->stopping) ||
		!scheduler_has_lease(dispatch, now_ms))
		return;
	suspects_resume(dispatch);
	for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next)
		suspects_reserve(dispatch, handler);
	while (moved) {
		moved = false;
		for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next)
			moved |=
				handler->ready_count > 0 && deliver_next(dispatch, handler, now_ms);
	}
}
