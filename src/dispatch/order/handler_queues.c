/* See handler_queues.h. Few handlers are connected to one sidecar, so the functions over all queues go through them. */
#include "dispatch/order/handler_queues.h"

#include <string.h>

/* This part of memory is free for handlers below their share: they get messages at once, before others are parked. */
#define SPARE_PART 10

/* The key of a queue: the name, and for a named consumer a NUL and its name. False: the names are longer than any that
 * can be in a hello. */
static bool make_key(struct queue_key *key, struct handler_id id)
{
	size_t name = strlen(id.name);
	size_t consumer = strlen(id.consumer);

	if (name + 1 + consumer > sizeof(key->bytes))
		return false;
	memcpy(key->bytes, id.name, name);
	key->length = name;
	if (consumer == 0)
		return true;
	key->bytes[name] = '\0';
	memcpy(key->bytes + name + 1, id.consumer, consumer);
	key->length += 1 + consumer;
	return true;
}

bool handler_queues_add(
	struct handler_queues *queues, struct handler_queue *queue, struct handler_id id)
{
	queue->id = id;
	TAILQ_INIT(&queue->ready);
	TAILQ_INIT(&queue->suspects);
	if (!make_key(&queue->key, id))
		return false;
	HASH_ADD_KEYPTR(hh, queues->by_name, queue->key.bytes, queue->key.length, queue);
	return queue->hh.tbl != NULL;
}

void handler_queues_remove(struct handler_queues *queues, struct handler_queue *queue)
{
	HASH_DEL(queues->by_name, queue);
}

struct handler_queue *handler_queues_find(const struct handler_queues *queues, struct handler_id id)
{
	struct handler_queue *queue = NULL;
	struct queue_key key;

	if (make_key(&key, id))
		HASH_FIND(hh, queues->by_name, key.bytes, key.length, queue);
	return queue;
}

void handler_queue_push(struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	if (entry->message->suspect) {
		TAILQ_INSERT_TAIL(&queue->suspects, entry, link);
	} else {
		TAILQ_INSERT_TAIL(&queue->ready, entry, link);
		queue->ready_count++;
	}
}

void handler_queue_remove(struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	if (entry->message->suspect) {
		TAILQ_REMOVE(&queue->suspects, entry, link);
	} else {
		TAILQ_REMOVE(&queue->ready, entry, link);
		queue->ready_count--;
	}
}

static size_t size_in(const struct entry *entry, int measure)
{
	return measure == MESSAGES ? 1 : entry->message->bytes;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t less(size_t from, size_t amount)
{
	return from > amount ? from - amount : 0;
}

void handler_queue_assign(
	struct handler_queues *queues, struct entry *entry, struct handler_queue *queue)
{
	if (queue == entry->queue)
		return;
	for (int m = 0; m < MEASURES; m++) {
		size_t size = size_in(entry, m);

		if (entry->queue != NULL) {
			entry->queue->held[m] -= size;
			queues->held[m] -= size;
		}
		if (queue != NULL) {
			queue->held[m] += size;
			queues->held[m] += size;
		}
	}
	if (entry->queue != NULL)
		entry->queue->emit_bytes -= entry->emit_bytes;
	if (queue != NULL)
		queue->emit_bytes += entry->emit_bytes;
	entry->queue = queue;
}

void handler_queue_begin_flight(struct handler_queues *queues, struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	if (entry->in_flight)
		return;
	entry->in_flight = true;
	for (int m = 0; m < MEASURES; m++) {
		size_t size = size_in(entry, m);
		size_t of_share = least(size, queue->kept[m]);

		queues->in_flight[m] += size;
		queue->in_flight[m] += size;
		queues->kept[m] -= of_share;
		queue->kept[m] -= of_share;
	}
	metric_set(queue->in_flight_gauge, (double)queue->in_flight[MESSAGES]);
}

void handler_queue_end_flight(struct handler_queues *queues, struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	entry->in_flight = false;
	for (int m = 0; m < MEASURES; m++) {
		queues->in_flight[m] -= size_in(entry, m);
		if (queue != NULL)
			queue->in_flight[m] -= size_in(entry, m);
	}
	if (queue != NULL)
		metric_set(queue->in_flight_gauge, (double)queue->in_flight[MESSAGES]);
}

/* ------------------------------------------------------------------ shares */

/* A handler has a share also while it restarts. Otherwise a handler that hangs could use this share meanwhile, and would
 * return it only after its deliveries have timed out. */
static bool has_share(const struct handler_queue *queue)
{
	return (queue->connections > 0 || queue->leaving > 0) && !queue->paused;
}

/* With more handlers than `most`, not each of them can have a share. */
static size_t share_of(const struct handler_queues *queues, size_t most)
{
	return queues->sharing < 2 ? most : most < queues->sharing ? 1 : most / queues->sharing;
}

static size_t spare_of(size_t most)
{
	return (most + SPARE_PART - 1) / SPARE_PART;
}

void handler_queues_share_out(struct handler_queues *queues, const struct handler_limits *limits)
{
	const struct handler_queue *queue;

	queues->limits = *limits;
	queues->sharing = 0;
	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		queues->sharing += has_share(queue);
}

/* The size of the deliveries that its window allows is not known. */
static void keep_share(struct handler_queues *queues, struct handler_queue *queue)
{
	for (int m = 0; m < MEASURES; m++) {
		size_t share = share_of(queues, queues->limits.in_flight[m]);
		size_t window = queue->window + queue->leaving;

		if (!has_share(queue) || window == 0)
			share = 0;
		else if (m == MESSAGES)
			share = least(share, window);
		queue->kept[m] = less(share, queue->in_flight[m]);
		queues->kept[m] += queue->kept[m];
	}
}

void handler_queues_keep_shares(struct handler_queues *queues)
{
	struct handler_queue *queue;

	for (int m = 0; m < MEASURES; m++)
		queues->kept[m] = 0;
	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		keep_share(queues, queue);
}

static bool has_others(const struct handler_queues *queues, const struct handler_queue *queue)
{
	return queues->sharing > has_share(queue);
}

size_t handler_queue_limit(const struct handler_queues *queues, const struct handler_queue *queue,
	enum measure measure)
{
	size_t most = queues->limits.claimed[measure];
	size_t others = queues->held[measure] - queue->held[measure];
	size_t share = has_share(queue) ? share_of(queues, most) : 0;
	size_t beyond = less(most, spare_of(most) + others);

	if (!has_others(queues, queue))
		return SIZE_MAX;
	return beyond > share ? beyond : share;
}

static bool needs_memory(const struct handler_queues *queues, const struct handler_queue *queue)
{
	if (!has_share(queue) || queue->ready_count > 0 ||
		queue->in_flight[MESSAGES] >= queue->window)
		return false;
	for (int m = 0; m < MEASURES; m++) {
		if (queue->held[m] >= share_of(queues, queues->limits.claimed[m]))
			return false;
	}
	return true;
}

bool handler_queues_need_memory(const struct handler_queues *queues)
{
	const struct handler_queue *queue = queues->by_name;

	while (queue != NULL && !needs_memory(queues, queue))
		queue = queue->hh.next;
	return queue != NULL;
}

/* Above its share a handler also leaves the spare part of memory free, because deliveries cannot be parked. */
size_t handler_queue_room(const struct handler_queues *queues, const struct handler_queue *queue,
	enum measure measure)
{
	size_t most = queues->limits.in_flight[measure];
	size_t claimed = queues->limits.claimed[measure];
	size_t used = queues->in_flight[measure];
	size_t own = least(queue->kept[measure], less(most, used));
	size_t beyond = less(least(most, claimed - spare_of(claimed)),
		used + queues->kept[measure] - queue->kept[measure]);

	if (!has_others(queues, queue))
		return less(most, used);
	return beyond > own ? beyond : own;
}

bool handler_queue_fits(const struct handler_queues *queues, const struct entry *entry)
{
	const struct handler_queue *queue = entry->queue;

	return handler_queue_room(queues, queue, MESSAGES) > 0 &&
	       (queue->in_flight[MESSAGES] == 0 ||
		       entry->message->bytes <= handler_queue_room(queues, queue, BYTES));
}

/* ------------------------------------------------------------------ all queues */

bool handler_queue_has_backlog(const struct handler_queue *queue)
{
	return queue != NULL && queue->ready_count >= HANDLER_QUEUE_BACKLOG_FROM;
}

size_t handler_queues_ready(const struct handler_queues *queues)
{
	const struct handler_queue *queue;
	size_t count = 0;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		count += queue->ready_count;
	return count;
}

bool handler_queues_are_held_up(const struct handler_queues *queues)
{
	const struct handler_queue *queue;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next) {
		if (queue->ready_count > 0 &&
			!handler_queue_fits(queues, TAILQ_FIRST(&queue->ready)))
			return true;
	}
	return false;
}
