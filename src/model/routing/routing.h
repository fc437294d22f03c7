/*
 * Routing: decides which handler gets a message. The most specific subscription wins: an exact type before the
 * longest prefix, before any type. For the same type pattern a named topic wins over any topic. Each consumer has its own
 * handlers: subscriptions of different consumers do not compete, and their handlers may have the same name.
 * Pure. A routing belongs to one thread; another thread can get a copy.
 */
#ifndef MODEL_ROUTING_ROUTING_H
#define MODEL_ROUTING_ROUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct handler_id {
	const char *consumer; /* "" = the one without a name */
	const char *name;
};

struct subscription {
	const char *topic; /* NULL = any */
	const char *type;  /* exact, or a prefix with '*' at its end; NULL = any, also no type */
};

struct routing;

enum { ROUTING_OVERLAP = 1, ROUTING_FULL = 2 };

#define ROUTING_MAX 10000 /* subscriptions of all handlers together */

int routing_new(struct routing **out, struct err *err);
void routing_free(struct routing *routing);
DEFINE_CLEANUP(struct routing *, routing_free);
/* Copies a routing, also for another thread. The copy shares the table, so its cost does not depend on the number of
 * subscriptions. */
int routing_copy(struct routing **out, const struct routing *from, struct err *err);
/* True if both share the same table. */
bool routing_shares(const struct routing *routing, const struct routing *other);

/* Replaces the subscriptions of a connected handler. A closed handler stays closed; a new one is open. The type "*"
 * equals NULL. A subscription that is given twice counts once. Copies what it needs. ROUTING_OVERLAP: another handler
 * that is not away has an equal subscription; the error names both. ROUTING_FULL: all together would have more than
 * ROUTING_MAX. In both cases, and after FAULT_MEMORY, nothing has changed. */
int routing_set(struct routing *routing, struct handler_id handler, const struct subscription *subs,
	size_t count, struct err *err);
/* A handler that is not connected here, but known. */
struct remembered {
	struct handler_id handler;
	const struct subscription *subs;
	size_t count;
	int64_t hello_at; /* when it said hello, on any clock that all of them share */
};
/* Replaces the subscriptions of a handler that is away. Messages for it go to no other handler. An equal subscription
 * of a connected handler wins over it, and so does one of a handler that is away and said hello later. ROUTING_FULL
 * as above: nothing has changed. A handler that connects never finds the routing full of these: those that are away
 * longest are dropped. */
int routing_remember(struct routing *routing, const struct remembered *remembered, struct err *err);
/* A connected handler is away from now on. After FAULT_MEMORY nothing has changed, here and below. */
int routing_leave(struct routing *routing, struct handler_id handler, int64_t hello_at);
/* The name of the handler that is away and would lose an equal subscription to this handler; NULL: none. */
const char *routing_displaced(const struct routing *routing, struct handler_id handler,
	const struct subscription *subs, size_t count);
/* The name of a connected handler of the same consumer that would get fewer messages because these subscriptions of
 * this handler are more specific. NULL: none, or the handler has these subscriptions already. */
const char *routing_narrowed(const struct routing *routing, struct handler_id handler,
	const struct subscription *subs, size_t count);
int routing_remove(struct routing *routing, struct handler_id handler);
/* A closed handler keeps its subscriptions and gets no new messages: routing_wants() is false for its messages, and
 * no less specific handler gets them. */
int routing_close(struct routing *routing, struct handler_id handler, bool closed);

/* What a handler is found by. */
struct routing_key {
	const char *consumer;
	const char *topic;
	const char *type; /* NULL = none */
};
/* The name of the handler (borrowed from the table), or NULL if no handler of the consumer subscribes to the message. */
const char *routing_find(const struct routing *routing, const struct routing_key *key);
/* True if the handler of the message is open and not away. */
bool routing_wants(const struct routing *routing, const struct routing_key *key);

/* True if a handler of any consumer that is not away, open or closed, subscribes to messages of the topic, of any type. */
bool routing_serves(const struct routing *routing, const char *topic);

/* True if a handler is not away. */
bool routing_has_connected(const struct routing *routing);
/* True if an open handler of the consumer is not away. */
bool routing_attends(const struct routing *routing, const char *consumer);

struct routed {
	struct handler_id handler;
	struct subscription sub;
	bool closed;
	bool away;
};
/* Calls `visit` for each subscription that is not hidden by an equal one. SQL filters are made of them. */
typedef void routing_visit(const struct routed *routed, void *arg);
void routing_each(const struct routing *routing, routing_visit *visit, void *arg);
/* Subscriptions in the table, of all handlers. */
size_t routing_count(const struct routing *routing);

#endif
