/*
 * See routes.h. Hashes are FNV-1a, which is computed byte by byte: one pass over a type yields the hash of each of
 * its prefixes. They have a random seed. Otherwise a client could choose subscriptions that collide, and slow down
 * the lookups of all handlers.
 *
 * Parts, in this order: the index, the routes of one handler, whole tables, lookups. Everything is allocated in one
 * block each, and a failed allocation leaves nothing behind: a table exists completely or not at all.
 */
#include "model/routing/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define HASH_PRIME 0x100000001b3ULL
#define SLOTS_MIN  8

static uint64_t hash_bytes(uint64_t hash, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * HASH_PRIME;
	return hash;
}

static uint64_t hash_topic(uint64_t seed, const char *consumer, const char *topic, size_t length)
{
	uint64_t hash = hash_bytes(seed, consumer, strlen(consumer));

	return topic == NULL ? ~hash : hash_bytes(hash, topic, length);
}

/* The route that a lookup searches for. `type_hash` is the hash of the first `type_length` bytes of the type. */
struct probe {
	const char *consumer;
	const char *topic;
	size_t topic_length;
	uint64_t topic_hash; /* of the consumer and the topic */
	const char *type;
	size_t type_length;
	uint64_t type_hash;
	enum route_kind kind;
};

/* FNV mixes the last bytes badly, so the parts are combined by two multiplications (the finalizer of MurmurHash3). */
static uint32_t hash_probe(const struct probe *probe)
{
	uint64_t hash = probe->type_hash ^ (probe->topic_hash << 23 | probe->topic_hash >> 41);

	hash = (hash + (uint64_t)probe->kind) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdULL;
	return (uint32_t)(hash ^ hash >> 32);
}

static bool same_bytes(const char *a, size_t a_length, const char *b, size_t b_length)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a_length == b_length && memcmp(a, b, a_length) == 0;
}

/* Ends at the first empty slot, and there is always one: the index is at most half full. */
static const struct route_slot *index_find(
	const struct route_index *index, const struct probe *probe)
{
	uint32_t hash = hash_probe(probe);

	for (size_t i = hash & index->mask; index->slots[i].route != NULL;
		i = (i + 1) & index->mask) {
		const struct route *route = index->slots[i].route;

		if (index->slots[i].hash == hash && route->kind == probe->kind &&
			same_bytes(route->topic, route->topic_length, probe->topic,
				probe->topic_length) &&
			strcmp(route->consumer, probe->consumer) == 0 &&
			(probe->kind == ROUTE_ANY || same_bytes(route->type, route->type_length,
							     probe->type, probe->type_length)))
			return &index->slots[i];
	}
	return NULL;
}

static void index_put(struct route_index *index, const struct route *route, size_t handler)
{
	size_t i = route->hash & index->mask;

	while (index->slots[i].route != NULL)
		i = (i + 1) & index->mask;
	index->slots[i] = (struct route_slot){ route, route->hash, (uint32_t)handler };
	index->count++;
}

/* An empty index for `count` routes, at most half full. `longest`: the length of the longest prefix. */
static struct route_index *index_new(size_t count, size_t longest)
{
	size_t slots = SLOTS_MIN;
	struct route_index *index;

	while (slots < 2 * count)
		slots *= 2;
	index = calloc(1, sizeof(*index) + slots * sizeof(index->slots[0]) +
				  (longest + 1) * sizeof(uint32_t));
	if (index == NULL)
		return NULL;
	atomic_init(&index->references, 1);
	index->mask = slots - 1;
	index->lengths = (uint32_t *)&index->slots[slots];
	return index;
}

static void index_release(struct route_index *index)
{
	if (index != NULL && atomic_fetch_sub(&index->references, 1) == 1)
		free(index);
}

/* ------------------------------------------------------------------ routes of one handler */

static struct probe probe_of(const struct route *route, uint64_t seed)
{
	return (struct probe){
		.consumer = route->consumer,
		.topic = route->topic,
		.topic_length = route->topic_length,
		.topic_hash = hash_topic(seed, route->consumer, route->topic, route->topic_length),
		.type = route->type,
		.type_length = route->type_length,
		.type_hash = hash_bytes(seed, route->type, route->type_length),
		.kind = route->kind,
	};
}

static struct route route_of(char **at, const struct subscription *sub)
{
	/* The type "*" matches every type, like a missing type, so both must compare as equal. */
	bool any = sub->type == NULL || strcmp(sub->type, "*") == 0;
	struct route route = {
		.topic = place_text(at, sub->topic),
		.type = any ? NULL : place_text(at, sub->type),
		.kind = any ? ROUTE_ANY : ROUTE_EXACT,
	};

	route.topic_length = route.topic == NULL ? 0 : strlen(route.topic);
	route.type_length = route.type == NULL ? 0 : strlen(route.type);
	if (route.type_length > 0 && route.type[route.type_length - 1] == '*') {
		route.kind = ROUTE_PREFIX;
		route.type_length--;
	}
	return route;
}

/* Adds the route of a subscription, unless the handler has given an equal one. */
static void take_sub(struct handler_routes *own, struct route_index *seen, char **at,
	const struct subscription *sub, uint64_t seed)
{
	struct route *route = &own->routes[own->count];
	struct probe probe;

	*route = route_of(at, sub);
	route->consumer = own->id.consumer;
	probe = probe_of(route, seed);
	route->hash = hash_probe(&probe);
	if (index_find(seen, &probe) != NULL)
		return;
	index_put(seen, route, 0);
	own->count++;
	if (route->kind == ROUTE_PREFIX && route->type_length > own->longest)
		own->longest = route->type_length;
}

struct handler_routes *handler_routes_new(
	struct handler_id id, const struct subscription *subs, size_t count, uint64_t seed)
{
	size_t size = sizeof(struct handler_routes) + count * sizeof(struct route) +
		      text_size(id.consumer) + text_size(id.name);
	struct route_index *seen = index_new(count, 0);
	struct handler_routes *own;
	char *at;

	for (size_t i = 0; i < count; i++)
		size += text_size(subs[i].topic) + text_size(subs[i].type);
	own = malloc(size);
	if (seen != NULL && own != NULL) {
		*own = (struct handler_routes){ .count = 0 };
		atomic_init(&own->references, 1);
		at = (char *)&own->routes[count];
		own->id.consumer = place_text(&at, id.consumer);
		own->id.name = place_text(&at, id.name);
		for (size_t i = 0; i < count; i++)
			take_sub(own, seen, &at, &subs[i], seed);
	} else {
		free(own);
		own = NULL;
	}
	index_release(seen);
	return own;
}

void handler_routes_release(struct handler_routes *own)
{
	if (own != NULL && atomic_fetch_sub(&own->references, 1) == 1)
		free(own);
}

bool handler_routes_equal(const struct handler_routes *a, const struct handler_routes *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct route *one = &a->routes[i];
		const struct route *other = &b->routes[i];

		if (one->hash != other->hash || one->kind != other->kind ||
			!same_bytes(
				one->topic, one->topic_length, other->topic, other->topic_length) ||
			!same_bytes(one->type, one->type_length, other->type, other->type_length))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ tables */

/* Collects the lengths of all prefixes in rising order: first each length is marked at its index, then the marks
 * become a list. */
static void gather_lengths(struct route_index *index, const struct routes *routes, size_t longest)
{
	uint32_t *lengths = index->lengths;

	for (size_t i = 0; i < routes->count; i++) {
		const struct handler_routes *own = routes->handlers[i].routes;

		for (size_t j = 0; own->longest > 0 && j < own->count; j++) {
			if (own->routes[j].kind == ROUTE_PREFIX)
				lengths[own->routes[j].type_length] = 1;
		}
	}
	for (size_t length = 0; length <= longest; length++) {
		if (lengths[length] != 0)
			lengths[index->length_count++] = (uint32_t)length;
	}
}

/* Connected handlers cannot have equal routes: routing_set() refuses them. So only those that are away are searched. */
static void put_routes(struct route_index *index, const struct routes_handler *handler,
	size_t place, uint64_t seed)
{
	for (size_t i = 0; i < handler->routes->count; i++) {
		const struct route *route = &handler->routes->routes[i];
		struct probe probe = { NULL };

		if (handler->away)
			probe = probe_of(route, seed);
		if (!handler->away || index_find(index, &probe) == NULL)
			index_put(index, route, place);
	}
}

static struct route_index *index_of(const struct routes *routes)
{
	struct route_index *index;
	size_t count = 0;
	size_t longest = 0;

	for (size_t i = 0; i < routes->count; i++) {
		count += routes->handlers[i].routes->count;
		if (routes->handlers[i].routes->longest > longest)
			longest = routes->handlers[i].routes->longest;
	}
	index = index_new(count, longest);
	if (index == NULL)
		return NULL;
	for (size_t i = 0; i < routes->count; i++)
		put_routes(index, &routes->handlers[i], i, routes->seed);
	gather_lengths(index, routes, longest);
	return index;
}

/* A table without its index. */
static struct routes *routes_of(const struct routes_handler *handlers, size_t count, uint64_t seed)
{
	struct routes *routes = calloc(1, sizeof(*routes) + count * sizeof(routes->handlers[0]));

	if (routes == NULL)
		return NULL;
	atomic_init(&routes->references, 1);
	routes->seed = seed;
	routes->count = count;
	for (size_t i = 0; i < count; i++) {
		routes->handlers[i] = handlers[i];
		(void)atomic_fetch_add(&handlers[i].routes->references, 1);
	}
	return routes;
}

struct routes *routes_new(const struct routes_handler *handlers, size_t count, uint64_t seed)
{
	struct routes *routes = routes_of(handlers, count, seed);

	if (routes == NULL)
		return NULL;
	routes->index = index_of(routes);
	if (routes->index == NULL) {
		routes_release(routes);
		return NULL;
	}
	return routes;
}

struct routes *routes_close(const struct routes *from, size_t handler, bool closed)
{
	struct routes *routes = routes_of(from->handlers, from->count, from->seed);

	if (routes == NULL)
		return NULL;
	(void)atomic_fetch_add(&from->index->references, 1);
	routes->index = from->index;
	routes->handlers[handler].closed = closed;
	return routes;
}

struct routes *routes_share(struct routes *routes)
{
	(void)atomic_fetch_add(&routes->references, 1);
	return routes;
}

void routes_release(struct routes *routes)
{
	if (routes == NULL || atomic_fetch_sub(&routes->references, 1) != 1)
		return;
	for (size_t i = 0; i < routes->count; i++)
		handler_routes_release(routes->handlers[i].routes);
	index_release(routes->index);
	free(routes);
}

/* ------------------------------------------------------------------ lookups */

const struct routes_handler *routes_owner(const struct routes *routes, const struct route *route)
{
	struct probe probe = probe_of(route, routes->seed);
	const struct route_slot *slot = index_find(routes->index, &probe);

	return slot == NULL ? NULL : &routes->handlers[slot->handler];
}

/* Searches for the named topic, then for any topic. */
static const struct route_slot *ask(const struct routes *routes, struct probe *probe)
{
	struct probe anywhere = *probe;
	const struct route_slot *slot = index_find(routes->index, probe);

	if (slot != NULL)
		return slot;
	anywhere.topic = NULL;
	anywhere.topic_hash = hash_topic(routes->seed, probe->consumer, NULL, 0);
	return index_find(routes->index, &anywhere);
}

/* Finds the longest prefix that matches. Leaves the hash of the whole type in the probe. */
static const struct route_slot *ask_prefixes(
	const struct routes *routes, struct probe *probe, const char *type, size_t length)
{
	const struct route_index *index = routes->index;
	const struct route_slot *best = NULL;

	probe->kind = ROUTE_PREFIX;
	for (size_t i = 0; i < index->length_count && index->lengths[i] <= length; i++) {
		const struct route_slot *slot;
		size_t next = index->lengths[i];

		probe->type_hash = hash_bytes(
			probe->type_hash, type + probe->type_length, next - probe->type_length);
		probe->type_length = next;
		slot = ask(routes, probe);
		if (slot != NULL)
			best = slot;
	}
	probe->type_hash = hash_bytes(
		probe->type_hash, type + probe->type_length, length - probe->type_length);
	probe->type_length = length;
	return best;
}

const struct routes_handler *routes_find(const struct routes *routes, const struct routing_key *key)
{
	const char *type = key->type;
	struct probe probe = {
		.consumer = key->consumer,
		.topic = key->topic,
		.topic_length = strlen(key->topic),
		.type = type,
		.type_hash = routes->seed,
	};
	const struct route_slot *prefix = NULL;
	const struct route_slot *slot = NULL;

	probe.topic_hash = hash_topic(routes->seed, key->consumer, key->topic, probe.topic_length);
	if (type != NULL) {
		prefix = ask_prefixes(routes, &probe, type, strlen(type));
		probe.kind = ROUTE_EXACT;
		slot = ask(routes, &probe);
	}
	if (slot == NULL)
		slot = prefix;
	if (slot == NULL) {
		probe.kind = ROUTE_ANY;
		probe.type_hash = routes->seed;
		slot = ask(routes, &probe);
	}
	return slot == NULL ? NULL : &routes->handlers[slot->handler];
}
