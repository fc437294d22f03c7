/*
 * Who gets what. A handler is a name with connections; what is ready for it goes to its least busy
 * connection that has room. Windows: each connection's own, the global max_in_flight, of which one
 * handler leaves a tenth to the others, and the bytes a connection has not read yet.
 *
 * A suspect (rule R14) reserves a connection, waits until it is empty, has its crash count raised in
 * the table, and is then delivered there alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"

#define GONE_GRACE_MS 1000  /* a handler that reconnects this fast costs its messages nothing */
#define BATCH_LIMIT   1000  /* entries gathered for one deliver_batch */

static struct metric *series(struct dispatch *dispatch, enum meter family, const char *name,
	const char *label)
{
	return metrics_get(dispatch->options.metrics, family, name, label);
}

static struct handler *handler_new(struct dispatch *dispatch, const char *name)
{
	struct handler *handler = calloc(1, sizeof(*handler));

	if (handler == NULL)
		return NULL;
	handler->name = strdup(name);
	if (handler->name == NULL) {
		free(handler);
		return NULL;
	}
	TAILQ_INIT(&handler->ready);
	TAILQ_INIT(&handler->suspects);
	TAILQ_INIT(&handler->sessions);
	for (int end = 0; end < END_RETURNED; end++)
		handler->ended[end] = series(dispatch, METER_DELIVERIES, name,
			judge_outcome((enum entry_end)end));
	handler->in_flight_gauge = series(dispatch, METER_IN_FLIGHT, name, NULL);
	handler->connected_gauge = series(dispatch, METER_HANDLERS_CONNECTED, name, NULL);
	handler->seconds = series(dispatch, METER_HANDLER, name, NULL);
	HASH_ADD_KEYPTR(hh, dispatch->handlers, handler->name, strlen(handler->name), handler);
	if (handler->hh.tbl == NULL) {
		free(handler->name);
		free(handler);
		return NULL;
	}
	return handler;
}

static void handler_free(struct dispatch *dispatch, struct handler *handler)
{
	HASH_DEL(dispatch->handlers, handler);
	free(handler->name);
	free(handler);
}

void handlers_fini(struct dispatch *dispatch)
{
	struct handler *handler;
	struct handler *next;

	HASH_ITER (hh, dispatch->handlers, handler, next)
		handler_free(dispatch, handler);
}

static void write_names(struct dispatch *dispatch)
{
	struct buf *names = &dispatch->names;
	struct handler *handler;
	struct handler *next;

	(void)pthread_mutex_lock(&dispatch->names_lock);
	buf_reset(names);
	buf_add_char(names, '[');
	HASH_ITER (hh, dispatch->handlers, handler, next) {
		if (handler->session_count == 0)
			continue;
		if (names->length > 1)
			buf_add_char(names, ',');
		json_add_string(names, bytes_of(handler->name));
	}
	buf_add_char(names, ']');
	(void)pthread_mutex_unlock(&dispatch->names_lock);
}

void handlers_publish(struct dispatch *dispatch)
{
	struct routing *snapshot = NULL;

	write_names(dispatch);
	if (routing_copy(&snapshot, dispatch->routing, NULL) != 0) {
		log_error("routing_not_published", LOG_STR("why", "out of memory"),
			LOG_STR("next", "ingest goes on with the earlier subscriptions"));
		return;
	}
	gate_set_routing(dispatch->options.gate, snapshot);
	claimer_sweep_soon(dispatch);
}

static bool has_others(const struct dispatch *dispatch, const struct handler *handler)
{
	const struct handler *other;

	for (other = dispatch->handlers; other != NULL; other = other->hh.next) {
		if (other != handler && other->session_count > 0)
			return true;
	}
	return false;
}

/* One slow handler may fill nine tenths of memory, not all of it: beyond that its messages are parked
 * in the table until it has worked off half. */
void handlers_weigh(struct dispatch *dispatch, struct handler *handler)
{
	size_t share = (size_t)dispatch->options.config->inbox.max_claimed * 9 / 10;
	bool full = handler->full ? handler->held > share / 2 : handler->held >= share;

	if (full && !handler->full && !has_others(dispatch, handler))
		return;
	if (full == handler->full)
		return;
	handler->full = full;
	routing_close(dispatch->routing, handler->name, full);
	handlers_publish(dispatch);
}

int handlers_join(struct dispatch *dispatch, struct session *session, const struct hello *hello,
	struct err *err)
{
	struct handler *handler = NULL;
	int r = routing_set(dispatch->routing, hello->handler, hello->subscribe,
		hello->subscribe_count, err);

	if (r != 0)
		return r;
	HASH_FIND_STR(dispatch->handlers, hello->handler, handler);
	if (handler == NULL)
		handler = handler_new(dispatch, hello->handler);
	if (handler == NULL) {
		routing_remove(dispatch->routing, hello->handler);
		return err_memory(err);
	}
	session->handler = handler;
	TAILQ_INSERT_TAIL(&handler->sessions, session, group_link);
	handler->session_count++;
	handler->routed = true;
	metric_set(handler->connected_gauge, (double)handler->session_count);
	handlers_publish(dispatch);
	dispatch_stir(dispatch);
	return 0;
}

void handlers_enqueue(struct dispatch *dispatch, struct entry *entry)
{
	struct handler *handler = entry->handler;

	(void)dispatch;
	if (entry->message->suspect) {
		TAILQ_INSERT_TAIL(&handler->suspects, entry, link);
		handler->suspect_count++;
	} else {
		TAILQ_INSERT_TAIL(&handler->ready, entry, link);
		handler->ready_count++;
	}
}

void handlers_dequeue(struct entry *entry)
{
	struct handler *handler = entry->handler;

	if (entry->message->suspect) {
		TAILQ_REMOVE(&handler->suspects, entry, link);
		handler->suspect_count--;
	} else {
		TAILQ_REMOVE(&handler->ready, entry, link);
		handler->ready_count--;
	}
}

static void leave_call(struct dispatch *dispatch, struct entry *entry)
{
	struct call *call = entry->call;

	if (call == NULL)
		return;
	TAILQ_REMOVE(&call->entries, entry, call_link);
	entry->call = NULL;
	if (!TAILQ_EMPTY(&call->entries))
		return;
	HASH_DEL(dispatch->calls, call);
	free(call);
}

/* An empty connection that a suspect waits for: now its crash count can be raised. */
static void serve_reserved(struct session *session)
{
	struct entry *entry = session->alone;

	if (entry == NULL || session->open_count > 0 || entry->state != ENTRY_RESERVED ||
		entry->raising)
		return;
	if (entry->raised)
		deliver(session, &entry, 1);
	else
		settler_add_raise(session->dispatch, entry);
}

void handlers_close_delivery(struct dispatch *dispatch, struct entry *entry)
{
	struct session *session = entry->session;

	leave_call(dispatch, entry);
	TAILQ_REMOVE(&session->open, entry, link);
	session->open_count--;
	entry->session = NULL;
	if (session->alone == entry)
		session->alone = NULL;
	metric_observe(entry->handler->seconds,
		(double)(clock_now_us() - entry->opened_us) / 1000000.0);
	serve_reserved(session);
	session_check_drained(session);
	dispatch_stir(dispatch);
}

/* The connection it waited for is gone, or it cannot be delivered there any more. */
static void unreserve(struct dispatch *dispatch, struct session *session)
{
	struct entry *entry = session->alone;

	session->alone = NULL;
	if (entry == NULL || entry->state != ENTRY_RESERVED)
		return;
	entry->session = NULL;
	if (!entry->raising)
		held_ready(dispatch, entry);
}

void handlers_raised(struct dispatch *dispatch, struct entry *entry)
{
	if (entry->session == NULL || dispatch_is_stopping(dispatch)) {
		if (entry->session != NULL)
			entry->session->alone = NULL;
		entry->session = NULL;
		held_ready(dispatch, entry);
		return;
	}
	serve_reserved(entry->session);
}

void handlers_release_reserved_of(struct dispatch *dispatch, struct session *session)
{
	if (session->alone != NULL && session->alone->state == ENTRY_RESERVED)
		unreserve(dispatch, session);
}

void handlers_release_reserved(struct dispatch *dispatch)
{
	struct session *session;

	TAILQ_FOREACH (session, &dispatch->sessions, link)
		handlers_release_reserved_of(dispatch, session);
}

void handlers_leave(struct dispatch *dispatch, struct session *session)
{
	struct handler *handler = session->handler;
	struct entry *entry;

	if (handler == NULL)
		return;
	unreserve(dispatch, session);
	while ((entry = TAILQ_FIRST(&session->open)) != NULL) {
		handlers_close_delivery(dispatch, entry);
		judge_lost(&dispatch->rules, entry);
		held_settle(dispatch, entry);
	}
	TAILQ_REMOVE(&handler->sessions, session, group_link);
	handler->session_count--;
	session->handler = NULL;
	metric_set(handler->connected_gauge, (double)handler->session_count);
	if (handler->session_count == 0)
		handler->gone_ms = clock_now_ms();
	write_names(dispatch);
}

static void requeue(struct dispatch *dispatch, struct entry_list *list)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(list)) != NULL) {
		handlers_dequeue(entry);
		held_ready(dispatch, entry); /* to another handler, or parked */
	}
}

static void forget_gone(struct dispatch *dispatch, struct handler *handler, int64_t now_ms)
{
	if (handler->session_count > 0 || now_ms - handler->gone_ms < GONE_GRACE_MS)
		return;
	if (handler->routed) {
		handler->routed = false;
		routing_remove(dispatch->routing, handler->name);
		requeue(dispatch, &handler->ready);
		requeue(dispatch, &handler->suspects);
		handlers_publish(dispatch);
	}
	if (handler->held == 0)
		handler_free(dispatch, handler);
}

static void expire(struct dispatch *dispatch, struct session *session, int64_t now_ms)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&session->open)) != NULL && entry->deadline_ms <= now_ms) {
		session_cancel(session, entry, "timeout");
		handlers_close_delivery(dispatch, entry);
		judge_timeout(&dispatch->rules, entry, session->timeout_ms);
		held_settle(dispatch, entry);
	}
}

void handlers_tick(struct dispatch *dispatch, int64_t now_ms)
{
	struct handler *handler;
	struct handler *next;
	struct session *session;

	TAILQ_FOREACH (session, &dispatch->sessions, link)
		expire(dispatch, session, now_ms);
	HASH_ITER (hh, dispatch->handlers, handler, next)
		forget_gone(dispatch, handler, now_ms);
}

/* ------------------------------------------------------------------ the pump */

static bool has_room(const struct session *session)
{
	return !session->draining && !session->closing && session->alone == NULL &&
		session->open_count < session->window && session_unsent(session) < OUTPUT_MAX_BYTES;
}

static struct session *least_busy(const struct handler *handler, bool (*fits)(const struct session *))
{
	struct session *best = NULL;
	struct session *session;

	TAILQ_FOREACH (session, &handler->sessions, group_link) {
		if (fits(session) && (best == NULL || session->open_count < best->open_count))
			best = session;
	}
	return best;
}

/* How many more this handler may have in flight: a tenth is left to the others. */
static size_t allowance(const struct dispatch *dispatch, const struct handler *handler)
{
	size_t most = (size_t)dispatch->options.config->inbox.max_in_flight;
	size_t share = most;

	if (has_others(dispatch, handler) && most > 1)
		share = most - (most + 9) / 10;
	if (dispatch->in_flight >= most || handler->in_flight >= share)
		return 0;
	most -= dispatch->in_flight;
	share -= handler->in_flight;
	return most < share ? most : share;
}

static bool can_reserve(const struct session *session)
{
	return !session->draining && !session->closing && session->alone == NULL &&
		session->window > 0;
}

static void reserve_for_suspects(struct dispatch *dispatch, struct handler *handler)
{
	struct session *session;
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&handler->suspects)) != NULL &&
		allowance(dispatch, handler) > 0) {
		session = least_busy(handler, can_reserve);
		if (session == NULL)
			return;
		handlers_dequeue(entry);
		entry->state = ENTRY_RESERVED;
		entry->session = session;
		session->alone = entry;
		serve_reserved(session);
	}
}

/* A batch may wait for more until batch_wait_ms after its first message was there. */
static bool batch_is_due(struct session *session, size_t count, int64_t now_ms)
{
	if (count >= session->batch_max || session->batch_wait_ms == 0)
		return true;
	if (session->batch_since_ms == 0) {
		session->batch_since_ms = now_ms;
		dispatch_stir_in(session->dispatch, session->batch_wait_ms);
	}
	return now_ms - session->batch_since_ms >= session->batch_wait_ms;
}

static size_t batch_size(const struct dispatch *dispatch, const struct session *session)
{
	size_t count = allowance(dispatch, session->handler);
	size_t room = session->window - session->open_count;

	if (count > room)
		count = room;
	if (count > session->handler->ready_count)
		count = session->handler->ready_count;
	if (count > session->batch_max)
		count = session->batch_max;
	return count < BATCH_LIMIT ? count : BATCH_LIMIT;
}

/* One deliver or deliver_batch line to the least busy connection. False: nothing can go now. */
static bool hand_out(struct dispatch *dispatch, struct handler *handler, int64_t now_ms)
{
	struct session *session = least_busy(handler, has_room);
	struct entry *entries[BATCH_LIMIT];
	size_t count;

	if (session == NULL)
		return false;
	count = batch_size(dispatch, session);
	if (count == 0 || !batch_is_due(session, count, now_ms))
		return false;
	session->batch_since_ms = 0;
	for (size_t i = 0; i < count; i++) {
		entries[i] = TAILQ_FIRST(&handler->ready);
		handlers_dequeue(entries[i]);
	}
	deliver(session, entries, count);
	return true;
}

void handlers_pump(struct dispatch *dispatch, int64_t now_ms)
{
	struct handler *handler;
	bool moved = true;

	if (dispatch_is_stopping(dispatch) || atomic_load(&dispatch->options.health->stopping))
		return;
	for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next)
		reserve_for_suspects(dispatch, handler);
	while (moved) {
		moved = false;
		for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next)
			moved |= handler->ready_count > 0 && hand_out(dispatch, handler, now_ms);
	}
}
