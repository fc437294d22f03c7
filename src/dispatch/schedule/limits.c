/*
 * The limits that a timer enforces:
 * - The deadline of each delivery. What is not answered by then times out.
 * - The share of memory of each handler. What it holds above that is parked in the table, so that a handler that
 *   answers nothing leaves memory to the others.
 */
#include "base/log.h"
#include "dispatch/schedule/ordered_batch.h"

/* Marks a connection as silent, because a delivery timed out. A connection that extended any delivery since this one
 * was opened is busy, not silent. */
static void fall_silent(struct connection *connection, const struct entry *entry, int64_t now_ms)
{
	if (connection->extended_us > entry->delivery.opened_us)
		return;
	if (connection->silent_ms == 0)
		log_warn("handler_silent", LOG_STR("handler", connection->group->name),
			LOG_STR("session", connection->id),
			LOG_STR("why", "a delivery timed out unanswered"),
			LOG_INT("timeout_ms", connection->timeout_ms),
			LOG_STR("next",
				"it gets one message at a time, after the other connections, "
				"until it sends a line"));
	connection->silent_ms = now_ms;
}

/* In an ordered batch only the first open message of a lane can have been tried, so only this one spends an attempt. */
static void time_out(struct schedule *schedule, struct connection *connection, struct entry *entry)
{
	struct retry_rules rules = order_rules(schedule->order, entry->message->consumer);
	struct entry *behind = ordered_batch_next(entry);
	bool tried = ordered_batch_first(entry) == entry;
	struct entry *next;

	delivery_cancel(schedule, entry, "timeout");
	delivery_close(schedule, entry);
	if (tried)
		retry_policy_timeout(&rules, entry, connection->timeout_ms);
	else
		retry_policy_return(entry);
	entry_settle(schedule->order, entry);
	for (; behind != NULL; behind = next) {
		next = ordered_batch_next(behind);
		delivery_cancel(schedule, behind, "timeout");
		delivery_skip(schedule, behind, entry);
	}
}

/* `read_ms` is the time of the tick before, or of the last one before the input was paused. If the loop was delayed, an answer that arrived in time may still be
 * unread at this tick, but it has been read by the next one. So no answer in time counts as a timeout. */
static void expire(struct schedule *schedule, struct connection *connection, int64_t read_ms)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&connection->open)) != NULL &&
		entry->delivery.deadline_ms <= read_ms) {
		if (entry->delivery
				.cut) { /* the partition was revoked, and its new owner waits no longer */
			delivery_cancel(schedule, entry, "lease_lost");
			delivery_close(schedule, entry);
			entry_return(schedule->order, entry);
			continue;
		}
		fall_silent(connection, entry, read_ms);
		time_out(schedule, connection, entry);
	}
}

/* Evicts entries behind `first` in its lane, from the last one, so that the order of the rest is kept. */
static void evict_behind(
	struct schedule *schedule, const struct handler_group *group, struct entry *first)
{
	struct entry *at =
		first->lane == NULL ? NULL : TAILQ_LAST(&first->lane->entries, entry_list);

	while (at != NULL && at != first && handler_group_exceeds_share(schedule->groups, group)) {
		struct entry *before = TAILQ_PREV(at, entry_list, lane_link);

		if (at->state == ENTRY_QUEUED && at->queue == &group->queue)
			entry_evict(schedule->order, at);
		at = before;
	}
}

/*
 * A handler can hold more than its share: messages were on their way when its routing was closed, or no other handler
 * was connected at that time. If it answers nothing, it never frees that memory and the others have no room. So its
 * latest messages are parked in the table.
 */
static void evict_excess(struct schedule *schedule, struct handler_group *group)
{
	struct connection *connection;
	struct entry *entry;

	if (!group->full)
		return;
	while (handler_group_exceeds_share(schedule->groups, group) &&
		(entry = TAILQ_LAST(&group->queue.ready, entry_list)) != NULL) {
		evict_behind(schedule, group, entry);
		if (handler_group_exceeds_share(schedule->groups, group))
			entry_evict(schedule->order, entry);
	}
	TAILQ_FOREACH (connection, &group->connections, link) {
		TAILQ_FOREACH (entry, &connection->open, link)
			evict_behind(schedule, group, entry);
	}
}

void limits_tick(struct schedule *schedule, int64_t now_ms)
{
	struct handler_queue *queues = schedule->order->queues.by_name;
	struct handler_queue *queue;
	struct connection *connection;

	for (queue = queues; queue != NULL; queue = queue->hh.next) {
		/* Answers that are not read while the order is full may be in time. */
		if (order_is_full(schedule->order, queue))
			continue;
		TAILQ_FOREACH (connection, &queue->group->connections, link)
			expire(schedule, connection, queue->ticked_ms);
		queue->ticked_ms = now_ms;
	}
	handler_groups_update_shares(schedule->groups);
	for (queue = queues; queue != NULL; queue = queue->hh.next)
		evict_excess(schedule, queue->group);
}
