/*
 * The entries of each handler: those that are ready to be delivered, and how many there are in all. Entries are routed
 * to a queue by the name of the handler and its consumer. A handler that is gone keeps its queue while entries are routed to it.
 *
 * The limits that handlers share (inbox.max_in_flight, max_claimed) are divided here: while others are connected, one
 * handler may use nine tenths. Pure. Dispatch thread only.
 */
#ifndef DISPATCH_ORDER_HANDLER_QUEUES_H
#define DISPATCH_ORDER_HANDLER_QUEUES_H

#include "dispatch/order/entry.h"
#include "model/routing/routing.h"
#include "report/metrics.h"

struct handler_group;

/* By which a queue is found. */
struct queue_key {
	char bytes[400];
	size_t length;
};

struct handler_queue {
	struct handler_id id;        /* of the handler; its names are owned by its group */
	struct handler_group *group; /* its connections; not used in this room */
	struct entry_list ready;     /* entries in state READY that may share a connection */
	size_t ready_count;
	struct entry_list suspects; /* entries in state READY that must be delivered alone */
	size_t entry_count;         /* entries routed to it, in any state */
	size_t entry_bytes;         /* the size of their messages */
	size_t emit_bytes;          /* of the events in their verdicts */
	size_t in_flight;           /* entries delivered and not settled */
	size_t connections;         /* of the handler; 0 = it is gone or away */
	int64_t ticked_ms; /* the last tick by which all input of its connections was read */
	bool paused;       /* by an operator: nothing is routed to it */
	bool routed; /* its subscriptions are in the routing as those of a connected handler */
	struct metric *ended[END_RETURNED];
	struct metric *in_flight_gauge;
	struct metric *end_to_end; /* shared by the handlers of the consumer */
	struct queue_key key;
	UT_hash_handle hh;
};

struct handler_queues {
	struct handler_queue *by_name;
	size_t in_flight; /* of all together */
};

/* Adds an empty queue. Keeps `queue`. False: no memory, or the names are too long. */
bool handler_queues_add(
	struct handler_queues *queues, struct handler_queue *queue, struct handler_id id);
void handler_queues_remove(struct handler_queues *queues, struct handler_queue *queue);
/* NULL: there is none of that handler. */
struct handler_queue *handler_queues_find(
	const struct handler_queues *queues, struct handler_id id);

/* Adds a READY entry to its queue, or removes it. */
void handler_queue_push(struct entry *entry);
void handler_queue_remove(struct entry *entry);
/* Routes the entry to this queue instead of the one before. NULL: to none. */
void handler_queue_assign(struct entry *entry, struct handler_queue *queue);
/* The entry is delivered: it is in flight until it is settled. */
void handler_queue_begin_flight(struct handler_queues *queues, struct entry *entry);
void handler_queue_end_flight(struct handler_queues *queues, struct entry *entry);

/* True when another handler is connected, which needs a share of what is limited. */
bool handler_queues_has_others(
	const struct handler_queues *queues, const struct handler_queue *queue);
/* The part of `most` that one handler may use while others are connected: nine tenths, but at least one. */
size_t handler_queues_share(int64_t most);
/* How many more deliveries of this handler `most` (inbox.max_in_flight) allows. */
size_t handler_queues_allowance(
	const struct handler_queues *queues, const struct handler_queue *queue, size_t most);
/* Entries that are ready and not suspects. */
size_t handler_queues_ready(const struct handler_queues *queues);
/* True when entries are ready for which `most` has no room. */
bool handler_queues_are_held_up(const struct handler_queues *queues, size_t most);

#endif
