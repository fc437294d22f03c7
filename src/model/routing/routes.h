/*
 * The routing table behind routing.h. It never changes and is counted by reference, so any thread can read it.
 * A change makes a new table, which shares the routes of all unchanged handlers. It also shares the index if only the
 * state of a handler changed.
 *
 * The index is a hash table of all routes. A lookup searches it for the exact type, for each length that any prefix
 * has, and for any type; each time for the named topic and for any topic. So its cost does not depend on the number
 * of handlers, and the number of prefix lengths is limited by the length of the type.
 */
#ifndef MODEL_ROUTING_ROUTES_H
#define MODEL_ROUTING_ROUTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/routing/routing.h"

enum route_kind { ROUTE_ANY = 0, ROUTE_PREFIX = 1, ROUTE_EXACT = 2 };

/* A subscription in the form that lookups compare. Lengths do not include the '*' of a prefix. */
struct route {
	const char *consumer; /* of its handler */
	const char *topic;    /* NULL = any */
	const char *type;     /* as it was given; NULL = any */
	size_t topic_length;
	size_t type_length;
	enum route_kind kind;
	uint32_t hash;
};

/* The subscriptions of one handler: one block of memory with all strings. */
struct handler_routes {
	atomic_size_t references;
	struct handler_id id;
	size_t longest; /* the length of its longest prefix */
	size_t count;
	struct route routes[];
};

/* `seed`: the seed of the hashes, the same for a whole table and unknown to clients. A subscription that is given
 * twice counts once. NULL: no memory. */
struct handler_routes *handler_routes_new(
	struct handler_id id, const struct subscription *subs, size_t count, uint64_t seed);
void handler_routes_release(struct handler_routes *own);
bool handler_routes_equal(const struct handler_routes *a, const struct handler_routes *b);

struct route_slot {
	const struct route *route; /* NULL = empty */
	uint32_t hash;
	uint32_t handler; /* the index of its handler in the table */
};

struct route_index {
	atomic_size_t references;
	size_t count;
	size_t mask;
	size_t length_count;
	uint32_t *lengths; /* the lengths of all prefixes, in rising order */
	struct route_slot slots[];
};

struct routes_handler {
	struct handler_routes *routes;
	bool closed;
	bool away;
	int64_t hello_at; /* of equal routes of handlers that are away, that of the newest hello counts */
};

struct routes {
	atomic_size_t references;
	uint64_t seed;
	struct route_index *index;
	size_t count;
	struct routes_handler handlers[];
};

/* A table of these handlers, which shares their routes. Handlers that are away must come last, the newest first: of
 * equal routes the first one counts, and only handlers that are away may have a route that is equal to an earlier
 * one. NULL: no memory. */
struct routes *routes_new(const struct routes_handler *handlers, size_t count, uint64_t seed);
/* A table that differs only in whether one handler is closed. NULL: no memory. */
struct routes *routes_close(const struct routes *from, size_t handler, bool closed);
struct routes *routes_share(struct routes *routes);
void routes_release(struct routes *routes);

/* The handler that has an equal route, or NULL. */
const struct routes_handler *routes_owner(const struct routes *routes, const struct route *route);
/* The handler that gets this message, or NULL. */
const struct routes_handler *routes_find(
	const struct routes *routes, const struct routing_key *key);

#endif
