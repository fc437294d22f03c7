/*
 * Handlers and their connections. A handler is a name; all connections with this name share its queues. Its
 * subscriptions are in the routing while it has a connection, and for GONE_GRACE_MS afterwards. Then it is away
 * (its messages wait) or, without inbox.handler_memory, its messages are routed anew.
 *
 * This file also limits what one handler can take: its share of memory, and the time of one delivery.
 * scheduler.c decides which connection gets which message.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"
#include "json/text.h"

/* The time for which a handler may be without a connection before its queued messages are parked. */
#define GONE_GRACE_MS 1000

static struct metric *series(
	struct dispatch *dispatch, enum meter family, const char *name, const char *label)
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
			retry_policy_outcome((enum entry_end)end));
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
	free(handler->known.subscriptions);
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

static void add_name(struct buf *names, const struct handler *handler)
{
	if (names->length > 1)
		buf_add_char(names, ',');
	json_add_string(names, bytes_of(handler->name));
}

static void write_names(struct dispatch *dispatch)
{
	struct buf *names = &dispatch->names;
	struct buf *away = &dispatch->away;
	const struct handler *handler;

	(void)pthread_mutex_lock(&dispatch->heartbeat_lock);
	buf_reset(names);
	buf_reset(away);
	buf_add_char(names, '[');
	buf_add_char(away, '[');
	for (handler = dispatch->handlers; handler != NULL; handler = handler->hh.next) {
		if (handler->session_count > 0)
			add_name(names, handler);
		else if (handler->known.away)
			add_name(away, handler);
	}
	buf_add_char(names, ']');
	buf_add_char(away, ']');
	(void)pthread_mutex_unlock(&dispatch->heartbeat_lock);
}

struct handler *handlers_get(struct dispatch *dispatch, const char *name)
{
	struct handler *handler = NULL;

	HASH_FIND_STR(dispatch->handlers, name, handler);
	return handler != NULL ? handler : handler_new(dispatch, name);
}

void handlers_publish(struct dispatch *dispatch)
{
	struct routing *snapshot = NULL;

	write_names(dispatch);
	if (!dispatch->handler_memory.loaded)
		return; /* ingest has no routing until then, so it parks all messages */
	if (routing_copy(&snapshot, dispatch->routing, NULL) != 0) {
		log_error("routing_not_published", LOG_STR("why", "out of memory"),
			LOG_STR("next", "ingest keeps using the earlier subscriptions"));
		return;
	}
	admission_set_routing(dispatch->options.admission, snapshot);
	claimer_sweep_soon(dispatch);
}

bool handlers_has_others(const struct dispatch *dispatch, const struct handler *handler)
{
	const struct handler *other;

	for (other = dispatch->handlers; other != NULL; other = other->hh.next) {
		if (other != handler && other->session_count > 0)
			return true;
	}
	return false;
}

size_t handlers_share(int64_t most)
{
	return most > 1 ? (size_t)(most - (most + 9) / 10) : 1;
}

/* True above the share. A handler that is full stays full until it holds half of its share. */
static bool is_over_share(const struct handler *handler, size_t held, int64_t most)
{
	return handler->full ? held > handlers_share(most) / 2 : held >= handlers_share(most);
}

/* One slow handler may use nine tenths of memory, by count or by bytes, while others are connected. Above that its
 * messages are parked in the table until it holds half of its share. */
static void update_share(struct dispatch *dispatch, struct handler *handler)
{
	const struct config *config = dispatch->options.config;
	bool full = is_over_share(handler, handler->entry_count, config->inbox.max_claimed) ||
		    is_over_share(handler, handler->entry_bytes, config->inbox.max_claimed_bytes);

	if (full && !handler->full && !handlers_has_others(dispatch, handler))
		return;
	if (full == handler->full || routing_close(dispatch->routing, handler->name, full) != 0)
		return; /* no memory: the next message of this handler tries again */
	handler->full = full;
	handlers_publish(dispatch);
}

void handlers_count_entry(struct dispatch *dispatch, struct handler *handler,
	const struct message *message, bool more)
{
	if (more) {
		handler->entry_count++;
		handler->entry_bytes += message->bytes;
	} else {
		handler->entry_count--;
		handler->entry_bytes -= message->bytes;
	}
	update_share(dispatch, handler);
}

static bool exceeds_share(const struct dispatch *dispatch, const struct handler *handler)
{
	const struct config *config = dispatch->options.config;

	return handler->entry_count > handlers_share(config->inbox.max_claimed) ||
	       handler->entry_bytes > handlers_share(config->inbox.max_claimed_bytes);
}

/* Evicts entries behind `first` in its lane, from the last one, so that the order of the rest is kept. */
static void evict_behind(struct dispatch *dispatch, struct handler *handler, struct entry *first)
{
	struct entry *at =
		first->lane == NULL ? NULL : TAILQ_LAST(&first->lane->entries, entry_list);

	while (at != NULL && at != first && exceeds_share(dispatch, handler)) {
		struct entry *before = TAILQ_PREV(at, entry_list, lane_link);

		if (at->state == ENTRY_QUEUED && at->handler == handler)
			entry_evict(dispatch, at);
		at = before;
	}
}

/*
 * A handler can hold more than its share: messages were on their way when its routing was closed, or no other handler
 * was connected at that time. If it answers nothing, it never frees that memory and the others have no room. So its
 * latest messages are parked in the table.
 */
static void evict_excess(struct dispatch *dispatch, struct handler *handler)
{
	struct session *session;
	struct entry *entry;

	update_share(dispatch, handler);
	if (!handler->full)
		return;
	while (exceeds_share(dispatch, handler) &&
		(entry = TAILQ_LAST(&handler->ready, entry_list)) != NULL) {
		evict_behind(dispatch, handler, entry);
		if (exceeds_share(dispatch, handler))
			entry_evict(dispatch, entry);
	}
	TAILQ_FOREACH (session, &handler->sessions, group_link) {
		TAILQ_FOREACH (entry, &session->open, link)
			evict_behind(dispatch, handler, entry);
	}
}

/* A handler that is away does not block an equal subscription of a connected one. So a handler that was renamed takes
 * over the subscriptions of its former name. */
static int subscribe(struct dispatch *dispatch, const struct hello *hello, struct err *err)
{
	const char *displaced = routing_displaced(
		dispatch->routing, hello->handler, hello->subscribe, hello->subscribe_count);
	CLEANUP(freep) char *other = displaced == NULL ? NULL : strdup(displaced);
	int r = routing_set(
		dispatch->routing, hello->handler, hello->subscribe, hello->subscribe_count, err);

	if (r == 0 && other != NULL)
		log_warn("handler_took_over", LOG_STR("handler", hello->handler),
			LOG_STR("from", other),
			LOG_STR("why", "it has an equal subscription, and the other is away"),
			LOG_STR("next",
				"if the handler was renamed, run `inboxd handlers forget` for the "
				"other name"));
	return r;
}

int handlers_join(struct dispatch *dispatch, struct session *session, const struct hello *hello,
	struct err *err)
{
	struct handler *handler;
	int r = subscribe(dispatch, hello, err);

	if (r != 0)
		return r;
	handler = handlers_get(dispatch, hello->handler);
	if (handler == NULL) {
		(void)routing_remove(dispatch->routing, hello->handler);
		return err_memory(err);
	}
	session->handler = handler;
	TAILQ_INSERT_TAIL(&handler->sessions, session, group_link);
	handler->session_count++;
	handler->routed = true;
	metric_set(handler->connected_gauge, (double)handler->session_count);
	handler_memory_joined(dispatch, handler, hello);
	handlers_publish(dispatch);
	dispatch_schedule(dispatch);
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

void handlers_close_delivery(struct dispatch *dispatch, struct entry *entry)
{
	struct session *session = entry->session;

	leave_call(dispatch, entry);
	TAILQ_REMOVE(&session->open, entry, link);
	session->open_count--;
	entry->session = NULL;
	if (session->suspect == entry)
		session->suspect = NULL;
	metric_observe(
		entry->handler->seconds, (double)(clock_now_us() - entry->opened_us) / 1000000.0);
	suspects_serve(session);
	session_check_drained(session);
	dispatch_schedule(dispatch);
}

void handlers_leave(struct dispatch *dispatch, struct session *session)
{
	struct handler *handler = session->handler;
	struct entry *entry;

	if (handler == NULL)
		return;
	suspects_unreserve(dispatch, session);
	while ((entry = TAILQ_FIRST(&session->open)) != NULL) {
		handlers_close_delivery(dispatch, entry);
		retry_policy_lost(&dispatch->rules, entry);
		entry_settle(dispatch, entry);
	}
	TAILQ_REMOVE(&handler->sessions, session, group_link);
	handler->session_count--;
	session->handler = NULL;
	metric_set(handler->connected_gauge, (double)handler->session_count);
	if (handler->session_count == 0) {
		handler->gone_ms = clock_now_ms();
		handler_memory_left(dispatch, handler);
	}
	write_names(dispatch);
}

static void requeue(struct dispatch *dispatch, struct entry_list *list)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(list)) != NULL) {
		handlers_dequeue(entry);
		entry_ready(dispatch, entry); /* routed to another handler, or parked */
	}
}

/* With inbox.handler_memory the messages of a handler that is gone wait for it. Without it they go to the handler with
 * the next specific subscription. */
static int leave_routing(struct dispatch *dispatch, struct handler *handler)
{
	int64_t hello_at_ms = handler->known.hello_ms + atomic_load(dispatch->options.pg_offset_ms);
	bool remembered = dispatch->options.config->inbox.handler_memory > 0;
	int r = remembered ? routing_leave(dispatch->routing, handler->name, hello_at_ms)
			   : routing_remove(dispatch->routing, handler->name);

	if (r != 0)
		return r;
	handler->routed = false;
	handler->known.away = remembered;
	if (remembered)
		handler_memory_report_away(dispatch, handler);
	return 0;
}

/* Frees the handler and drops its metric series. */
static void forget(struct dispatch *dispatch, struct handler *handler)
{
	metrics_drop(dispatch->options.metrics, METER_HANDLERS_CONNECTED, handler->name, NULL);
	metrics_drop(dispatch->options.metrics, METER_IN_FLIGHT, handler->name, NULL);
	handler_free(dispatch, handler);
}

static void forget_gone(struct dispatch *dispatch, struct handler *handler, int64_t now_ms)
{
	if (handler->session_count > 0 || now_ms - handler->gone_ms < GONE_GRACE_MS)
		return;
	if (handler->routed) {
		if (leave_routing(dispatch, handler) != 0)
			return; /* no memory: the next tick tries again */
		requeue(dispatch, &handler->ready);
		requeue(dispatch, &handler->suspects);
		handlers_publish(dispatch);
	}
	if (handler->entry_count == 0 && !handler->known.away && !handler->known.in_table &&
		!handler->known.hello_unsaved && !handler->known.leave_unsaved)
		forget(dispatch, handler);
}

/* Marks a connection as silent, because a delivery timed out. A connection that extended any delivery since this one
 * was opened is busy, not silent. */
static void fall_silent(struct session *session, const struct entry *entry, int64_t now_ms)
{
	if (session->extended_us > entry->opened_us)
		return;
	if (session->silent_ms == 0)
		log_warn("handler_silent", LOG_STR("handler", session->handler->name),
			LOG_STR("session", session->id),
			LOG_STR("why", "a delivery timed out unanswered"),
			LOG_INT("timeout_ms", session->timeout_ms),
			LOG_STR("next",
				"it gets one message at a time, after the other connections, "
				"until it sends a line"));
	session->silent_ms = now_ms;
}

/* `read_ms` is the time of the tick before. If the loop was delayed, an answer that arrived in time may still be
 * unread at this tick, but it has been read by the next one. So no answer in time counts as a timeout. */
static void expire(struct dispatch *dispatch, struct session *session, int64_t read_ms)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&session->open)) != NULL && entry->deadline_ms <= read_ms) {
		if (entry->cut) { /* the partition was revoked, and its new owner waits no longer */
			session_cancel(session, entry, "lease_lost");
			entry_return(dispatch, entry);
			continue;
		}
		fall_silent(session, entry, read_ms);
		session_cancel(session, entry, "timeout");
		handlers_close_delivery(dispatch, entry);
		retry_policy_timeout(&dispatch->rules, entry, session->timeout_ms);
		entry_settle(dispatch, entry);
	}
}

void handlers_tick(struct dispatch *dispatch, int64_t now_ms)
{
	struct handler *handler;
	struct handler *next;
	struct session *session;

	TAILQ_FOREACH (session, &dispatch->sessions, link)
		expire(dispatch, session, dispatch->ticked_ms);
	HASH_ITER (hh, dispatch->handlers, handler, next) {
		evict_excess(dispatch, handler);
		forget_gone(dispatch, handler, now_ms);
	}
}
