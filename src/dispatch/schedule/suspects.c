/*
 * Suspects (rule R14): messages that were open when their connection ended, so that they may be the cause. A suspect is
 * delivered alone, in four steps:
 * 1. It reserves a connection (RESERVED). The connection gets no further message. While other messages are ready, suspects get at
 *    most half of the time of a connection: a handler that was killed with a hundred open messages has a hundred suspects.
 * 2. It waits until that connection has no open delivery.
 * 3. Its crash count is raised in the table. If the sidecar itself dies now, the count survives. If a handler's transaction
 *    locks the row, the suspect gives the connection back and tries again after a pause.
 * 4. It is delivered. Any answer takes the raised count back; a lost connection keeps it.
 *
 * The connection, the partition or the place in the lane can be lost in each step. Then the suspect goes back to its
 * lane, and if its crash count is being raised, it does so when the worker has finished (entry_requeue).
 */
#include "base/time/clock.h"
#include "dispatch/schedule/schedule.h"

/* Suspects that are looked at to find one that does not wait for a locked row. Those that wait move to the end when they
 * have tried again. */
#define LOOKED_AT_MOST 100

static void serve(struct schedule *schedule, struct connection *connection)
{
	struct entry *entry = connection->reservation.entry;

	if (entry == NULL || connection->open_count > 0 || connection->calling ||
		connection->window == 0 || entry->state != ENTRY_RESERVED || entry->raising)
		return;
	if (entry->raised)
		delivery_send(schedule, connection, &entry, 1);
	else
		settler_add_raise(schedule->table, entry);
}

void suspects_continue(struct schedule *schedule)
{
	struct order *order = schedule->order;
	struct handler_queue *queue;
	struct connection *connection;

	if (!order->suspects_due)
		return;
	order->suspects_due = false;
	for (queue = order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		TAILQ_FOREACH (connection, &queue->group->connections, link)
			serve(schedule, connection);
	}
}

static struct entry *first_due(const struct entry_list *suspects)
{
	struct entry *entry;
	int64_t now_ms;
	int looked = 0;

	if (TAILQ_EMPTY(suspects))
		return NULL;
	now_ms = clock_now_ms();
	TAILQ_FOREACH (entry, suspects, link) {
		if (entry->settling.retry_at_ms <= now_ms)
			return entry;
		if (++looked == LOOKED_AT_MOST)
			return NULL;
	}
	return NULL;
}

void suspects_reserve(struct schedule *schedule, struct handler_group *group)
{
	struct handler_queues *queues = &schedule->order->queues;
	struct connection *connection;
	struct entry *entry;

	while ((entry = first_due(&group->queue.suspects)) != NULL &&
		handler_queue_fits(queues, entry)) {
		connection = connection_least_busy(group, connection_can_reserve);
		if (connection == NULL)
			return;
		handler_queue_remove(entry);
		lanes_set_state(entry, ENTRY_RESERVED);
		entry->reservation = &connection->reservation;
		connection->reservation.entry = entry;
		connection->reservation.since_ms = clock_now_ms();
		serve(schedule, connection);
	}
}

void suspects_release_of(struct schedule *schedule, struct connection *connection)
{
	struct entry *entry = connection->reservation.entry;

	if (entry == NULL || entry->state != ENTRY_RESERVED)
		return;
	entry_unreserve(entry);
	/* While its crash count is raised it stays RESERVED. The settler continues with it then. */
	if (!entry->raising)
		entry_ready(schedule->order, entry);
}

void schedule_set_window(struct schedule *schedule, struct connection *connection, size_t window)
{
	connection->window = window;
	if (window == 0)
		suspects_release_of(schedule, connection);
}

void suspects_release(struct schedule *schedule, bool all)
{
	struct handler_queue *queue;
	struct connection *connection;

	for (queue = schedule->order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		TAILQ_FOREACH (connection, &queue->group->connections, link) {
			const struct entry *entry = connection->reservation.entry;

			if (entry != NULL &&
				(all || !order_may_deliver(schedule->order, entry->stream)))
				suspects_release_of(schedule, connection);
		}
	}
}
