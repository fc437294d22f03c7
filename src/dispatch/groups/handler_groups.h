/*
 * Handler groups. A group is all connections that have the same handler name and consumer: they share its queue. Its
 * subscriptions are in the routing while it has a connection, and for a second afterwards. Then the handler is away
 * (its messages wait) or, without inbox.handler_memory, its messages are routed anew.
 *
 * A group also limits the part of memory that one handler can take. Dispatch thread only, except the three functions
 * that say so. Nothing here blocks.
 */
#ifndef DISPATCH_GROUPS_HANDLER_GROUPS_H
#define DISPATCH_GROUPS_HANDLER_GROUPS_H

#include <pthread.h>

#include "base/buf.h"
#include "dispatch/order/order.h"
#include "dispatch/protocol/protocol.h"
#include "model/admission/pauses.h"

struct connection;
struct table;

TAILQ_HEAD(connection_list, connection);

/* What the table knows about one handler, and what it does not know yet. See handler_memory.h. */
struct known_state {
	bool away;     /* not connected here, but known: its subscriptions are in the routing */
	bool in_table; /* it has a row in the table */
	bool hello_unsaved;  /* its newest hello is not recorded there yet */
	bool leave_unsaved;  /* nor is the end of its last connection */
	bool refusal_logged; /* there was no room for its subscriptions, and the log has it */
	uint64_t changed;    /* handler_groups.changes when it last connected or left */
	int64_t hello_ms;    /* of its newest hello */
	char *subscriptions; /* JSON of the newest hello; NULL: none, or no memory */
};

struct handler_group {
	char *name;
	char *consumer;                     /* "" = the one without a name */
	struct handler_queue queue;         /* queue.connections counts the connections */
	struct connection_list connections; /* the room schedule adds and removes them */
	bool full; /* others need memory that it holds; ingest stores its new messages as parked */
	int64_t gone_ms; /* when its last connection ended */
	struct known_state known;
	struct metric *seconds; /* how long its deliveries take */
};

struct handler_groups {
	struct context *context;
	struct order *order;
	struct table *table;
	pthread_mutex_t lock;   /* protects the next three, which the heartbeat thread reads */
	struct buf names;       /* connected handlers, a JSON array */
	struct buf away;        /* known handlers without a connection here, a JSON array */
	struct buf paused;      /* what is paused, a JSON array */
	bool lists_outdated;    /* there was no memory to update one of them */
	struct pauses pauses;   /* the same */
	bool pauses_known;      /* they were read once */
	uint64_t changes;       /* of handlers, so far */
	bool exchange_soon;     /* something changed that the table should have */
	int64_t exchanged_ms;   /* when the last exchange began */
	int64_t exchange_at_ms; /* the next one, if nothing changes or no look says so */
	int64_t exchanged_version; /* of the last look before the last exchange; 0: exchange in any case */
};

void handler_groups_init(struct handler_groups *groups, struct order *order, struct table *table);
/* Frees the groups. They have neither connections nor entries. */
void handler_groups_fini(struct handler_groups *groups);

/* Finds or creates the group of that handler. NULL: no memory. */
struct handler_group *handler_groups_get(struct handler_groups *groups, struct handler_id id);
struct handler_id handler_group_id(const struct handler_group *group);
/* A connection said hello: adds its subscriptions to the routing, and gives its group. ROUTING_OVERLAP or ROUTING_FULL
 * with a text for the client, or FAULT_MEMORY. */
int handler_groups_join(struct handler_groups *groups, const struct hello *hello,
	struct handler_group **out, struct err *err);
/* One of its connections has ended. */
void handler_groups_leave(struct handler_groups *groups, struct handler_group *group);

/* Divides what handlers share, and opens or closes them for new messages, by what they hold of memory now. */
void handler_groups_update_shares(struct handler_groups *groups);
/* True when the group is closed and holds more than it may (handler_queue_limit). */
bool handler_group_exceeds(const struct handler_groups *groups, const struct handler_group *group,
	enum measure measure);
/* The group that holds the most of those that exceed, and less than `below`; NULL: none. */
struct handler_group *handler_groups_largest(
	const struct handler_groups *groups, enum measure measure, size_t below);
/* A handler changed here or in another instance: makes an exchange with the table soon (handler_memory.h). */
void handler_groups_exchange_soon(struct handler_groups *groups);
/* Takes handlers that stay away out of the routing, and frees those that are forgotten. */
void handler_groups_tick(struct handler_groups *groups, int64_t now_ms);
/* Takes over what is paused now. The routing of a paused handler is closed, and what was ready for it is parked. Takes
 * the list, which is empty then. */
void handler_groups_set_pauses(struct handler_groups *groups, struct pauses *pauses);
/* The routing changed: gives a copy to ingest and starts a sweep for parked rows. */
void handler_groups_publish(struct handler_groups *groups);
/* Logs that its messages wait from now on, unless the sidecar only publishes and gets none. */
void handler_group_report_away(
	const struct handler_groups *groups, const struct handler_group *group);

/* Writes the connected handlers as a JSON array. Any thread. */
void handler_groups_write_names(struct handler_groups *groups, struct buf *out);
/* Writes the handlers that are known and not connected here as a JSON array. Any thread. */
void handler_groups_write_away(struct handler_groups *groups, struct buf *out);
/* Writes what is paused as a JSON array. Any thread. */
void handler_groups_write_paused(struct handler_groups *groups, struct buf *out);

#endif
