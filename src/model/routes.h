/*
 * The routing table behind model/routing.h: immutable, counted by reference, readable by any thread.
 * A change makes a new table. It takes over the wishes of every handler that did not change by
 * reference, and the index too when only the state of a handler changed.
 *
 * The index is a hash table of all routes. A lookup asks it once for the exact type, once for each
 * length that some prefix has, and once for any type, each for the named topic and for any topic:
 * the number of questions does not depend on the number of handlers, and the number of lengths is
 * bounded by the length of the type.
 */
#ifndef MODEL_ROUTES_H
#define MODEL_ROUTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/routing.h"

enum route_kind { ROUTE_ANY = 0, ROUTE_PREFIX = 1, ROUTE_EXACT = 2 };

/* A subscription ready to be compared: lengths are known, the '*' of a prefix is not counted. */
struct route {
	const char *topic; /* NULL = any */
	const char *type;  /* as it was given; NULL = any */
	size_t topic_length;
	size_t type_length;
	enum route_kind kind;
	uint32_t hash;
};

/* What one handler subscribed to; one block of memory with the strings. */
struct handler_routes {
	atomic_size_t references;
	const char *name;
	size_t longest; /* prefix */
	size_t count;
	struct route routes[];
};

/* `seed`: of the hashes, the same for all wishes of a table; no client knows it. A subscription given
 * twice counts once. NULL: no memory. */
struct handler_routes *handler_routes_new(
	const char *name, const struct subscription *subs, size_t count, uint64_t seed);
struct handler_routes *handler_routes_share(struct handler_routes *own);
void handler_routes_release(struct handler_routes *own);
bool handler_routes_equal(const struct handler_routes *a, const struct handler_routes *b);

struct route_slot {
	const struct route *route; /* NULL = empty */
	uint32_t hash;
	uint32_t handler; /* its place in the table */
};

struct route_index {
	atomic_size_t references;
	size_t count;
	size_t mask;
	size_t length_count;
	uint32_t *lengths; /* of prefixes, rising */
	struct route_slot slots[];
};

struct routes_handler {
	struct handler_routes *routes;
	bool closed;
	bool away;
	int64_t said; /* when it said hello: of equal routes of handlers that are away the newest counts */
};

struct routes {
	atomic_size_t references;
	uint64_t seed;
	struct route_index *index;
	size_t count;
	struct routes_handler handlers[];
};

/* A table of these handlers; shares their wishes. Those that are away come last, the newest first. Of
 * equal routes the first one counts; only those behind may have equal ones. NULL: no memory. */
struct routes *routes_new(const struct routes_handler *handlers, size_t count, uint64_t seed);
/* The same with one handler in another state. NULL: no memory. */
struct routes *routes_close(const struct routes *from, size_t handler, bool closed);
struct routes *routes_share(struct routes *routes);
void routes_release(struct routes *routes);

/* Which handler has an equal route, or NULL. */
const struct routes_handler *routes_owner(const struct routes *routes, const struct route *route);
/* Which handler a message goes to, or NULL. */
const struct routes_handler *routes_find(
	const struct routes *routes, const char *topic, const char *type);

#endif
