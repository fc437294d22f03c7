/*
 * Delivers the READY messages of each handler to its least busy connection that has room. Room is limited by:
 * - the window of the connection,
 * - inbox.max_in_flight and the bytes of memory, of which each handler has a share (handler_queues.h),
 * - the bytes that the connection has not read yet.
 *
 * Handlers take turns: the one behind the last that got something comes first. If inbox.max_in_flight is smaller than their number,
 * not each of them has a share, and the first ones could get everything.
 *
 * Without a valid lease nothing is delivered.
 */
#include "base/text/digest.h"
#include "dispatch/schedule/schedule.h"

#define BATCH_LIMIT 1000 /* messages in one deliver_batch */
/* Bytes of the messages in one deliver_batch; a single message may be larger. Escaping makes a key up to six times as
 * long, and the line must stay below PROTOCOL_MAX_LINE. */
#define BATCH_BYTES ((size_t)PROTOCOL_MAX_LINE / 8)

int schedule_init(struct schedule *schedule, struct handler_groups *groups, struct err *err)
{
	int r;

	schedule->context = groups->context;
	schedule->order = groups->order;
	schedule->groups = groups;
	schedule->table = groups->table;
	r = digester_new(&schedule->digester, err);
	return r != 0 ? r : event_renderer_new(&schedule->renderer, err);
}

void schedule_fini(struct schedule *schedule)
{
	event_renderer_free(schedule->renderer);
	digester_free(schedule->digester);
	buf_fini(&schedule->rendered);
	buf_fini(&schedule->line);
}

/* An incomplete batch waits for more messages until batch_wait_ms after its first message was ready. */
static bool batch_is_due(
	struct schedule *schedule, struct connection *connection, size_t count, int64_t now_ms)
{
	int64_t left_ms;

	if (count >= connection->batch_max || count >= BATCH_LIMIT ||
		connection->batch_wait_ms == 0)
		return true;
	if (connection->batch_since_ms == 0)
		connection->batch_since_ms = now_ms;
	left_ms = connection->batch_since_ms + connection->batch_wait_ms - now_ms;
	if (left_ms > 0)
		context_request_round_in(schedule->context, left_ms);
	return left_ms <= 0;
}

static size_t batch_size(const struct schedule *schedule, const struct connection *connection)
{
	const struct handler_queue *queue = &connection->group->queue;
	size_t count = handler_queue_room(&schedule->order->queues, queue, MESSAGES);
	size_t room = connection_window(connection) - connection->open_count;

	if (count > room)
		count = room;
	if (count > queue->ready_count && !connection->batch_ordered)
		count = queue->ready_count;
	if (count > connection->batch_max)
		count = connection->batch_max;
	return count < BATCH_LIMIT ? count : BATCH_LIMIT;
}

/* Finds at most `most` entries for one delivery, of which the first one fits. Returns how many. In an ordered batch each
 * ready message is followed by the next ones of its key (rule R26). */
static size_t gather(const struct schedule *schedule, const struct connection *connection,
	struct entry **entries, size_t most)
{
	const struct handler_queue *queue = &connection->group->queue;
	struct entry *ready = TAILQ_FIRST(&queue->ready);
	size_t room = handler_queue_room(&schedule->order->queues, queue, BYTES);
	size_t bytes = 0;
	size_t count = 0;

	for (; ready != NULL && count < most; ready = TAILQ_NEXT(ready, link)) {
		struct entry *at = ready;
		size_t first = count;

		while (at != NULL && count < most) {
			bytes += at->message->bytes;
			if ((count > 0 && bytes > BATCH_BYTES) ||
				(count + queue->in_flight[MESSAGES] > 0 && bytes > room))
				return count;
			entries[count++] = at;
			at = connection->batch_ordered
				     ? entry_next_in_batch(schedule->order, at, count - first)
				     : NULL;
		}
	}
	return count;
}

/* Sends one deliver or deliver_batch line to the least busy connection. False: nothing can be delivered now. */
static bool deliver_next(struct schedule *schedule, struct handler_group *group, int64_t now_ms)
{
	struct connection *connection = connection_least_busy(group, connection_has_room);
	struct entry *entries[BATCH_LIMIT];
	size_t count;

	if (connection == NULL ||
		!handler_queue_fits(&schedule->order->queues, TAILQ_FIRST(&group->queue.ready)))
		return false;
	count = batch_size(schedule, connection);
	if (connection->batch_ordered)
		count = gather(schedule, connection, entries, count);
	if (!batch_is_due(schedule, connection, count, now_ms))
		return false;
	connection->batch_since_ms = 0;
	if (!connection->batch_ordered)
		count = gather(schedule, connection, entries, count);
	for (size_t i = 0; i < count; i++) {
		if (entries[i]->state == ENTRY_READY)
			handler_queue_remove(entries[i]);
	}
	delivery_send(schedule, connection, entries, count);
	return true;
}

/* False when the last heartbeat is older than the lease: another instance may hold our messages then, so nothing is
 * delivered (rule R6). */
static bool has_lease(const struct context *context, int64_t now_ms)
{
	return now_ms - atomic_load(&context->options.health->heartbeat_ms) <
	       context->options.config->worker.lease;
}

static void add_up_windows(struct handler_queues *queues)
{
	struct handler_queue *queue;
	const struct connection *connection;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next) {
		queue->window = 0;
		if (queue->connections > 0)
			queue->leaving = 0;
		TAILQ_FOREACH (connection, &queue->group->connections, link) {
			if (!connection->draining && !connection->closing)
				queue->window += connection->window;
			else
				queue->leaving += connection->window;
		}
	}
}

/* One delivery to each handler of a part of the list. False: there was none. */
static bool deliver_to(struct schedule *schedule, size_t from, size_t behind, int64_t now_ms)
{
	struct handler_queue *queue = schedule->order->queues.by_name;
	bool moved = false;

	for (size_t i = 0; queue != NULL && i < behind; i++, queue = queue->hh.next) {
		if (i < from || queue->ready_count == 0 ||
			!deliver_next(schedule, queue->group, now_ms))
			continue;
		schedule->turn = i + 1;
		moved = true;
	}
	return moved;
}

void scheduler_run(struct schedule *schedule, int64_t now_ms)
{
	const struct context *context = schedule->context;
	struct handler_queue *queues = schedule->order->queues.by_name;
	struct handler_queue *queue;
	bool moved = true;

	if (context_is_stopping(context) || atomic_load(&context->options.health->stopping) ||
		!has_lease(context, now_ms))
		return;
	if (schedule->order->queues.sharing > 1) {
		add_up_windows(&schedule->order->queues);
		handler_queues_keep_shares(&schedule->order->queues);
	}
	suspects_continue(schedule);
	for (queue = queues; queue != NULL; queue = queue->hh.next)
		suspects_reserve(schedule, queue->group);
	while (moved) {
		size_t first = schedule->turn;

		moved = deliver_to(schedule, first, SIZE_MAX, now_ms);
		moved |= deliver_to(schedule, 0, first, now_ms);
	}
}
