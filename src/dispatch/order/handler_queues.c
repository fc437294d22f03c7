/* See handler_queues.h. Few handlers are connected to one sidecar, so the functions over all queues go through them. */
#include "dispatch/order/handler_queues.h"

#include <string.h>

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

void handler_queue_assign(struct entry *entry, struct handler_queue *queue)
{
	if (queue == entry->queue)
		return;
	if (entry->queue != NULL) {
		entry->queue->entry_count--;
		entry->queue->entry_bytes -= entry->message->bytes;
		entry->queue->emit_bytes -= entry->emit_bytes;
	}
	entry->queue = queue;
	if (queue != NULL) {
		queue->entry_count++;
		queue->entry_bytes += entry->message->bytes;
		queue->emit_bytes += entry->emit_bytes;
	}
}

void handler_queue_begin_flight(struct handler_queues *queues, struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	if (entry->in_flight)
		return;
	entry->in_flight = true;
	queues->in_flight++;
	queue->in_flight++;
	metric_set(queue->in_flight_gauge, (double)queue->in_flight);
}

void handler_queue_end_flight(struct handler_queues *queues, struct entry *entry)
{
	struct handler_queue *queue = entry->queue;

	entry->in_flight = false;
	queues->in_flight--;
	if (queue == NULL)
		return;
	queue->in_flight--;
	metric_set(queue->in_flight_gauge, (double)queue->in_flight);
}

bool handler_queues_has_others(
	const struct handler_queues *queues, const struct handler_queue *queue)
{
	const struct handler_queue *other;

	for (other = queues->by_name; other != NULL; other = other->hh.next) {
		if (other != queue && other->connections > 0)
			return true;
	}
	return false;
}

size_t handler_queues_share(int64_t most)
{
	return most > 1 ? (size_t)(most - (most + 9) / 10) : 1;
}

size_t handler_queues_allowance(
	const struct handler_queues *queues, const struct handler_queue *queue, size_t most)
{
	size_t share = handler_queues_has_others(queues, queue)
			       ? handler_queues_share((int64_t)most)
			       : most;

	if (queues->in_flight >= most || queue->in_flight >= share)
		return 0;
	most -= queues->in_flight;
	share -= queue->in_flight;
	return most < share ? most : share;
}

size_t handler_queues_ready(const struct handler_queues *queues)
{
	const struct handler_queue *queue;
	size_t count = 0;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next)
		count += queue->ready_count;
	return count;
}

bool handler_queues_are_held_up(const struct handler_queues *queues, size_t most)
{
	const struct handler_queue *queue;

	for (queue = queues->by_name; queue != NULL; queue = queue->hh.next) {
		if (queue->ready_count > 0 && handler_queues_allowance(queues, queue, most) == 0)
			return true;
	}
	return false;
}
