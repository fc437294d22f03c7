/*
 * The entries of each handler: those that are ready to be delivered, and how many there are in all. Entries are routed
 * to a queue by the name of the handler and its consumer. A handler that is gone keeps its queue while entries are routed to it.
 *
 * What handlers share is divided here: memory (inbox.max_claimed, max_claimed_bytes) and deliveries in flight
 * (inbox.max_in_flight; the bytes of memory). Each connected handler has a share, the limit divided by their number:
 * - In flight, it can always use its share, as far as its windows allow. A delivery cannot be taken back, so nobody else
 *   uses what it leaves of its share.
 * - In memory, others may use what it leaves. They give it back when it needs memory: what is not delivered can be parked.
 *
 * Pure. Dispatch thread only.
 */
#ifndef DISPATCH_ORDER_HANDLER_QUEUES_H
#define DISPATCH_ORDER_HANDLER_QUEUES_H

#include "dispatch/order/entry.h"
#include "model/routing/routing.h"
#include "report/metrics.h"

struct handler_group;

#define HANDLER_QUEUE_BACKLOG_FROM 16

/* What is limited: messages, and their bytes. */
enum measure { MESSAGES, BYTES, MEASURES };

struct handler_limits {
	size_t claimed[MEASURES];   /* in memory */
	size_t in_flight[MEASURES]; /* delivered and not settled */
};

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
	size_t held[MEASURES];      /* entries routed to it, in any state */
	size_t emit_bytes;          /* of the events in their verdicts */
	size_t in_flight[MEASURES]; /* entries delivered and not settled */
	size_t kept[MEASURES]; /* what it leaves of its share in flight, and others may not use */
	size_t connections;    /* of the handler; 0 = it is gone or away */
	size_t window;         /* of its connections together, as the scheduler saw them last */
	size_t leaving; /* the windows of connections that drain or have just ended; the handler may connect again */
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
	struct handler_limits limits;
	size_t sharing; /* handlers that have a share: connected or just gone, and not paused */
	/* Of all together. */
	size_t held[MEASURES];
	size_t in_flight[MEASURES];
	size_t kept[MEASURES];
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
void handler_queue_assign(
	struct handler_queues *queues, struct entry *entry, struct handler_queue *queue);
/* The entry is delivered: it is in flight until it is settled. */
void handler_queue_begin_flight(struct handler_queues *queues, struct entry *entry);
void handler_queue_end_flight(struct handler_queues *queues, struct entry *entry);

/* Divides the limits among the handlers that are connected now. */
void handler_queues_share_out(struct handler_queues *queues, const struct handler_limits *limits);
/* Keeps for each handler what it leaves of its share in flight, as far as its window allows it to use that. */
void handler_queues_keep_shares(struct handler_queues *queues);
/* What the handler may hold in memory: its share, or more as long as a tenth of all memory stays free. */
size_t handler_queue_limit(const struct handler_queues *queues, const struct handler_queue *queue,
	enum measure measure);
/* True when a handler holds less than its share, and has room for messages but none to deliver. */
bool handler_queues_need_memory(const struct handler_queues *queues);
/* How much more of this handler may be in flight. */
size_t handler_queue_room(const struct handler_queues *queues, const struct handler_queue *queue,
	enum measure measure);
/* True when the entry may be delivered. Bytes do not limit the only delivery of a handler. */
bool handler_queue_fits(const struct handler_queues *queues, const struct entry *entry);
/* True when so many entries of the handler are ready that one more would not be delivered within a few milliseconds. NULL: false. */
bool handler_queue_has_backlog(const struct handler_queue *queue);
/* Entries that are ready and not suspects. */
size_t handler_queues_ready(const struct handler_queues *queues);
/* True when entries are ready that may not be delivered until others are settled. */
bool handler_queues_are_held_up(const struct handler_queues *queues);

#endif
