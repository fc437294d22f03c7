/*
 * The limits that a timer enforces:
 * - The deadline of each delivery. What is not answered by then times out.
 * - The share of memory of each handler. When others need memory, what a handler holds above its share is parked in the
 *   table. So handlers that answer nothing leave memory to the others, however many they are.
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

/* A handler that holds too much of something. */
struct excess {
	struct schedule *schedule;
	struct handler_group *group;
	enum measure measure;
};

static bool is_left(const struct excess *excess)
{
	return handler_group_exceeds(excess->schedule->groups, excess->group, excess->measure);
}

/* Evicts its entries behind `first` in the lane, from the last one, so that the order of the rest is kept. */
static void evict_behind(const struct excess *excess, struct entry *first)
{
	struct entry *at =
		first->lane == NULL ? NULL : TAILQ_LAST(&first->lane->entries, entry_list);

	while (at != NULL && at != first && is_left(excess)) {
		struct entry *before = TAILQ_PREV(at, entry_list, lane_link);

		if (at->state == ENTRY_QUEUED && at->queue == &excess->group->queue)
			entry_evict(excess->schedule->order, at);
		at = before;
	}
}

/* Evicts the entries of a list of READY ones, from the last one, each after those behind it. */
static void evict_ready(const struct excess *excess, struct entry_list *list)
{
	struct entry *entry;

	while (is_left(excess) && (entry = TAILQ_LAST(list, entry_list)) != NULL) {
		evict_behind(excess, entry);
		if (is_left(excess))
			entry_evict(excess->schedule->order, entry);
	}
}

/* Evicts its entries that wait behind messages of any handler. */
static void evict_waiting(const struct excess *excess)
{
	struct handler_queue *queue = excess->schedule->order->queues.by_name;
	struct connection *connection;
	struct entry *entry;

	for (; queue != NULL && is_left(excess); queue = queue->hh.next) {
		TAILQ_FOREACH (entry, &queue->ready, link)
			evict_behind(excess, entry);
		TAILQ_FOREACH (entry, &queue->suspects, link)
			evict_behind(excess, entry);
		TAILQ_FOREACH (connection, &queue->group->connections, link) {
			if (connection->reservation.entry != NULL)
				evict_behind(excess, connection->reservation.entry);
			TAILQ_FOREACH (entry, &connection->open, link)
				evict_behind(excess, entry);
		}
	}
}

/*
 * A handler can hold more than its share: others did not need memory when its messages arrived. If it answers nothing, it
 * never frees that memory. So its latest messages are parked in the table: first those of the handler that holds the most.
 * What is delivered cannot be parked; handler_queue_room() limits it.
 */
static void evict_excess(struct schedule *schedule, enum measure measure)
{
	struct excess excess = { .schedule = schedule, .measure = measure };
	size_t below = SIZE_MAX;

	while ((excess.group = handler_groups_largest(schedule->groups, measure, below)) != NULL) {
		below = excess.group->queue.held[measure];
		evict_ready(&excess, &excess.group->queue.ready);
		evict_ready(&excess, &excess.group->queue.suspects);
		evict_waiting(&excess);
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
	for (int m = 0; m < MEASURES; m++)
		evict_excess(schedule, (enum measure)m);
}
