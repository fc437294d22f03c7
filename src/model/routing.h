/*
 * Which handler a message goes to. A table of subscriptions by handler name; the most specific one
 * wins: exact type over longest prefix over whole topic over everything; within the same type
 * pattern a named topic beats any topic. Pure. A routing belongs to one thread; a copy of it may be
 * given to another.
 */
#ifndef MODEL_ROUTING_H
#define MODEL_ROUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

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
/* A snapshot, also for another thread. It shares what it shows: its cost does not depend on the number
 * of subscriptions. */
int routing_copy(struct routing **out, const struct routing *from, struct err *err);
/* True when both show the same, shared table. */
bool routing_shares(const struct routing *routing, const struct routing *other);

/* Gives the handler these subscriptions, replacing what it had; a closed one stays closed, a new
 * one is open. Type "*" is the same as NULL; a subscription given twice counts once.
 * ROUTING_OVERLAP when another handler that is not away has an equal one, ROUTING_FULL when all together would have more
 * than ROUTING_MAX: nothing changes, and the words name the handler and the subscription, or the number.
 * Copies what it needs. FAULT_MEMORY changes nothing either. */
int routing_set(struct routing *routing, const char *handler, const struct subscription *subs,
	size_t count, struct err *err);
/* A handler that is not connected here, but known. */
struct remembered {
	const char *handler;
	const struct subscription *subs;
	size_t count;
	int64_t said; /* when it said hello, on any clock that all of them share */
};
/* Gives such a handler these subscriptions, replacing what it had. It is away: what is its goes to nobody.
 * Equal subscriptions of a handler that is connected win over it, and so do those of one that is away and
 * said hello later. ROUTING_FULL as above: nothing changes. A handler that connects makes room for itself:
 * those that are away longest go. */
int routing_remember(struct routing *routing, const struct remembered *remembered, struct err *err);
/* A connected handler is away from now on. FAULT_MEMORY changes nothing, here as below. */
int routing_leave(struct routing *routing, const char *handler, int64_t said);
/* The handler that is away and loses an equal subscription when this one is set; NULL: none. */
const char *routing_displaced(const struct routing *routing, const char *handler,
	const struct subscription *subs, size_t count);
int routing_remove(struct routing *routing, const char *handler);
/* A closed handler keeps its subscriptions but takes nothing now: routing_wants() says no for what
 * is its, and no less specific handler gets it. */
int routing_close(struct routing *routing, const char *handler, bool closed);

/* The handler's name (borrowed from the table), or NULL when nobody subscribed. */
const char *routing_find(const struct routing *routing, const char *topic, const char *type);
/* True when somebody subscribed who is open and not away. */
bool routing_wants(const struct routing *routing, const char *topic, const char *type);

/* True when somebody open subscribed to messages of the topic, of whatever type. */
bool routing_serves(const struct routing *routing, const char *topic);

/* True when a handler is in it that is not away. */
bool routing_has_connected(const struct routing *routing);

struct routed {
	const char *handler;
	struct subscription sub;
	bool closed;
	bool away;
};
/* Walks all subscriptions that count, for SQL filters. */
typedef void routing_visit(const struct routed *routed, void *arg);
void routing_each(const struct routing *routing, routing_visit *visit, void *arg);
/* Subscriptions in the table, of all handlers. */
size_t routing_count(const struct routing *routing);

#endif
