/*
 * See routing.h. A routing is a reference to an immutable table (routes.h). A copy shares the table and costs one small
 * allocation. A change builds a new table and then replaces the reference of this routing only. If building fails, the
 * routing is as it was.
 *
 * So dispatch can change its routing at any time, while ingest asks its copy under the lock of the admission and the
 * workers make SQL filters of theirs. Changes are rare (a handler connects or leaves), questions are one or more for
 * each message; that is why changes copy and questions do not.
 */
#include "model/routing/routing.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time/backoff.h"
#include "model/routing/routes.h"

#define NARROWED_MAX 1000000 /* comparisons of two subscriptions */

struct routing {
	struct routes *routes;
};

DEFINE_CLEANUP(struct handler_routes *, handler_routes_release);

int routing_new(struct routing **out, struct err *err)
{
	CLEANUP(routing_freep) struct routing *routing = calloc(1, sizeof(*routing));

	if (routing == NULL)
		return err_memory(err);
	routing->routes = routes_new(NULL, 0, random_u64());
	if (routing->routes == NULL)
		return err_memory(err);
	*out = routing;
	routing = NULL;
	return 0;
}

void routing_free(struct routing *routing)
{
	if (routing == NULL)
		return;
	routes_release(routing->routes);
	free(routing);
}

int routing_copy(struct routing **out, const struct routing *from, struct err *err)
{
	struct routing *copy = calloc(1, sizeof(*copy));

	if (copy == NULL)
		return err_memory(err);
	copy->routes = routes_share(from->routes);
	*out = copy;
	return 0;
}

bool routing_shares(const struct routing *routing, const struct routing *other)
{
	return routing->routes == other->routes;
}

static bool is_handler(const struct handler_routes *routes, struct handler_id id)
{
	return strcmp(routes->id.name, id.name) == 0 &&
	       strcmp(routes->id.consumer, id.consumer) == 0;
}

/* Index of the handler, or the count when it is not in the table. */
static size_t index_of(const struct routes *routes, struct handler_id id)
{
	size_t i = 0;

	while (i < routes->count && !is_handler(routes->handlers[i].routes, id))
		i++;
	return i;
}

/* ROUTING_OVERLAP if another connected handler has one of these routes. */
static int refuse_overlap(const struct routes *routes, size_t own,
	const struct handler_routes *wanted, struct err *err)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const struct route *route = &wanted->routes[i];
		const struct routes_handler *owner = routes_owner(routes, route);
		const char *topic_quote = route->topic == NULL ? "" : "\"";
		const char *type_quote = route->type == NULL ? "" : "\"";

		if (owner != NULL && owner != &routes->handlers[own] && !owner->away)
			return err_set(err, ROUTING_OVERLAP,
				"handler \"%s\" is already subscribed to topic %s%s%s, type "
				"%s%s%s: if both need each message, list both as consumers in "
				"the configuration; to share its work, connect under that name; a "
				"narrower subscription takes its messages away from that handler",
				owner->routes->id.name, topic_quote,
				route->topic == NULL ? "any" : route->topic, topic_quote,
				type_quote, route->type == NULL ? "any" : route->type, type_quote);
	}
	return 0;
}

/* The number of subscriptions of all other handlers; without `all` only of those that are connected. */
static size_t count_others(const struct routes *routes, size_t own, bool all)
{
	size_t count = 0;

	for (size_t i = 0; i < routes->count; i++) {
		if (i != own && (all || !routes->handlers[i].away))
			count += routes->handlers[i].routes->count;
	}
	return count;
}

static int refuse_excess(size_t others, const struct handler_routes *wanted, struct err *err)
{
	if (others + wanted->count <= ROUTING_MAX)
		return 0;
	return err_set(err, ROUTING_FULL,
		"all handlers together may have %d subscriptions: the others have %zu, these are "
		"%zu more; subscribe to prefixes (\"order.*\") or whole topics",
		ROUTING_MAX, others, wanted->count);
}

/* Replaces the table. NULL: no memory, and nothing changes. */
static int replace(struct routing *routing, struct routes *routes, struct err *err)
{
	if (routes == NULL)
		return err_memory(err);
	routes_release(routing->routes);
	routing->routes = routes;
	return 0;
}

/* The order of handlers in a table: connected ones first, then those that are away, the newest first. routes_new()
 * expects it, and drop_excess() drops from the end. */
static bool precedes(const struct routes_handler *a, const struct routes_handler *b)
{
	if (a->away != b->away)
		return !a->away;
	return !a->away || a->hello_at >= b->hello_at;
}

/* Returns how many handlers stay so that all together have at most ROUTING_MAX routes. Those that are away longest
 * are last and are dropped first. */
static size_t drop_excess(const struct routes_handler *handlers, size_t count)
{
	size_t routes = 0;

	for (size_t i = 0; i < count; i++)
		routes += handlers[i].routes->count;
	while (routes > ROUTING_MAX && count > 0 && handlers[count - 1].away)
		routes -= handlers[--count].routes->count;
	return count;
}

/* Replaces the handler at index `at`, or adds one. Without routes the handler is removed. A connected handler that
 * stays connected keeps its place; any other one is inserted where precedes() says. */
static int put(struct routing *routing, size_t at, struct routes_handler one, struct err *err)
{
	const struct routes *from = routing->routes;
	CLEANUP(freep) struct routes_handler *handlers = calloc(from->count + 1, sizeof(*handlers));
	size_t count = 0;
	bool stays = at < from->count && from->handlers[at].away == one.away && !one.away;

	if (handlers == NULL)
		return err_memory(err);
	for (size_t i = 0; i < from->count; i++) {
		if (i != at)
			handlers[count++] = from->handlers[i];
		else if (stays && one.routes != NULL)
			handlers[count++] = one;
	}
	if (!stays && one.routes != NULL) {
		size_t i = count++;

		for (; i > 0 && !precedes(&handlers[i - 1], &one); i--)
			handlers[i] = handlers[i - 1];
		handlers[i] = one;
	}
	count = drop_excess(handlers, count);
	return replace(routing, routes_new(handlers, count, from->seed), err);
}

int routing_set(struct routing *routing, struct handler_id handler, const struct subscription *subs,
	size_t count, struct err *err)
{
	const struct routes *routes = routing->routes;
	CLEANUP(handler_routes_releasep)
	struct handler_routes *wanted = handler_routes_new(handler, subs, count, routes->seed);
	size_t own = index_of(routes, handler);
	struct routes_handler one = { .routes = wanted };
	int r;

	if (wanted == NULL)
		return err_memory(err);
	if (own < routes->count) {
		one = routes->handlers[own];
		if (!one.away && handler_routes_equal(one.routes, wanted))
			return 0; /* one more connection */
		one.routes = wanted;
		one.away = false;
	}
	r = refuse_overlap(routes, own, wanted, err);
	if (r == 0)
		r = refuse_excess(count_others(routes, own, false), wanted, err);
	return r != 0 ? r : put(routing, own, one, err);
}

/* The hello is compared, too: a handler that reconnects elsewhere with the same subscriptions is newer than another
 * one with an equal subscription. */
int routing_remember(struct routing *routing, const struct remembered *remembered, struct err *err)
{
	const struct routes *routes = routing->routes;
	CLEANUP(handler_routes_releasep)
	struct handler_routes *wanted = handler_routes_new(
		remembered->handler, remembered->subs, remembered->count, routes->seed);
	size_t own = index_of(routes, remembered->handler);
	struct routes_handler one = {
		.routes = wanted, .away = true, .hello_at = remembered->hello_at
	};
	int r;

	if (wanted == NULL)
		return err_memory(err);
	if (own < routes->count && routes->handlers[own].away &&
		routes->handlers[own].hello_at == one.hello_at &&
		handler_routes_equal(routes->handlers[own].routes, wanted))
		return 0;
	r = refuse_excess(count_others(routes, own, true), wanted, err);
	return r != 0 ? r : put(routing, own, one, err);
}

int routing_leave(struct routing *routing, struct handler_id handler, int64_t hello_at)
{
	size_t own = index_of(routing->routes, handler);
	struct routes_handler one;

	if (own == routing->routes->count || routing->routes->handlers[own].away)
		return 0;
	one = routing->routes->handlers[own];
	one.away = true;
	one.hello_at = hello_at;
	return put(routing, own, one, NULL);
}

int routing_remove(struct routing *routing, struct handler_id handler)
{
	size_t own = index_of(routing->routes, handler);

	if (own == routing->routes->count)
		return 0;
	return put(routing, own, (struct routes_handler){ NULL }, NULL);
}

int routing_close(struct routing *routing, struct handler_id handler, bool closed)
{
	size_t own = index_of(routing->routes, handler);

	if (own == routing->routes->count || routing->routes->handlers[own].closed == closed)
		return 0;
	return replace(routing, routes_close(routing->routes, own, closed), NULL);
}

const char *routing_find(const struct routing *routing, const struct routing_key *key)
{
	const struct routes_handler *handler = routes_find(routing->routes, key);

	return handler == NULL ? NULL : handler->routes->id.name;
}

bool routing_wants(const struct routing *routing, const struct routing_key *key)
{
	const struct routes_handler *handler = routes_find(routing->routes, key);

	return handler != NULL && !handler->closed && !handler->away;
}

bool routing_serves(const struct routing *routing, const char *topic)
{
	for (size_t i = 0; i < routing->routes->count; i++) {
		const struct routes_handler *handler = &routing->routes->handlers[i];

		for (size_t j = 0; j < handler->routes->count; j++) {
			const char *wanted = handler->routes->routes[j].topic;

			if (!handler->away && (wanted == NULL || strcmp(wanted, topic) == 0))
				return true;
		}
	}
	return false;
}

void routing_each(const struct routing *routing, routing_visit *visit, void *arg)
{
	for (size_t i = 0; i < routing->routes->count; i++) {
		const struct routes_handler *handler = &routing->routes->handlers[i];

		for (size_t j = 0; j < handler->routes->count; j++) {
			const struct route *route = &handler->routes->routes[j];
			const struct routed routed = {
				.handler = handler->routes->id,
				.sub = { route->topic, route->type },
				.closed = handler->closed,
				.away = handler->away,
			};

			if (!handler->away || routes_owner(routing->routes, route) == handler)
				visit(&routed, arg);
		}
	}
}

/* Connected handlers come first in the table. */
bool routing_has_connected(const struct routing *routing)
{
	return routing->routes->count > 0 && !routing->routes->handlers[0].away;
}

bool routing_attends(const struct routing *routing, const char *consumer)
{
	const struct routes_handler *handlers = routing->routes->handlers;

	for (size_t i = 0; i < routing->routes->count && !handlers[i].away; i++) {
		if (!handlers[i].closed && strcmp(handlers[i].routes->id.consumer, consumer) == 0)
			return true;
	}
	return false;
}

const char *routing_displaced(const struct routing *routing, struct handler_id handler,
	const struct subscription *subs, size_t count)
{
	CLEANUP(handler_routes_releasep)
	struct handler_routes *wanted =
		handler_routes_new(handler, subs, count, routing->routes->seed);

	for (size_t i = 0; wanted != NULL && i < wanted->count; i++) {
		const struct routes_handler *owner =
			routes_owner(routing->routes, &wanted->routes[i]);

		if (owner != NULL && owner->away && !is_handler(owner->routes, handler))
			return owner->routes->id.name;
	}
	return NULL;
}

/* True if `route` gets messages that `other` would get without it. */
static bool takes_from(const struct route *route, const struct route *other)
{
	if (route->topic != NULL && other->topic != NULL && strcmp(route->topic, other->topic) != 0)
		return false;
	if (route->kind != other->kind)
		return route->kind > other->kind &&
		       (other->kind == ROUTE_ANY ||
			       strncmp(route->type, other->type, other->type_length) == 0);
	if (route->type_length == other->type_length &&
		!(route->topic != NULL && other->topic == NULL))
		return false;
	if (route->type_length < other->type_length ||
		(route->kind == ROUTE_EXACT && route->type_length != other->type_length))
		return false;
	return route->kind == ROUTE_ANY ||
	       strncmp(route->type, other->type, other->type_length) == 0;
}

static bool takes_from_any(const struct handler_routes *wanted, const struct handler_routes *other)
{
	for (size_t i = 0; i < wanted->count; i++) {
		for (size_t j = 0; j < other->count; j++) {
			if (takes_from(&wanted->routes[i], &other->routes[j]))
				return true;
		}
	}
	return false;
}

/* The number of comparisons is limited, because dispatch waits for them. */
const char *routing_narrowed(const struct routing *routing, struct handler_id handler,
	const struct subscription *subs, size_t count)
{
	const struct routes *routes = routing->routes;
	CLEANUP(handler_routes_releasep)
	struct handler_routes *wanted = handler_routes_new(handler, subs, count, routes->seed);
	size_t own = index_of(routes, handler);

	if (wanted == NULL || wanted->count * count_others(routes, own, false) > NARROWED_MAX ||
		(own < routes->count && handler_routes_equal(routes->handlers[own].routes, wanted)))
		return NULL;
	for (size_t i = 0; i < routes->count && !routes->handlers[i].away; i++) {
		const struct handler_routes *other = routes->handlers[i].routes;

		if (i != own && strcmp(other->id.consumer, handler.consumer) == 0 &&
			takes_from_any(wanted, other))
			return other->id.name;
	}
	return NULL;
}

size_t routing_count(const struct routing *routing)
{
	return routing->routes->index->count;
}
