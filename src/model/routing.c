/*
 * The routing table: an array of handlers, each one block of memory with its subscriptions and
 * their strings. A lookup walks them all and keeps the best fit; there are dozens, and most are
 * turned down by one comparison of lengths. A change builds the handler's new block first, so that
 * a failed one leaves the table as it was.
 */
#include "model/routing.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* A pattern ready to be compared: lengths are known, the '*' of a prefix is not counted. */
struct route {
	const char *topic; /* NULL = any */
	const char *type;  /* as it was given; NULL = any */
	size_t topic_length;
	size_t type_length;
	bool prefix;
};

struct handler {
	bool closed;
	size_t count;
	const char *name;
	struct route routes[];
};

struct routing {
	struct handler **handlers;
	size_t count;
	size_t capacity;
};

static void handler_free(struct handler *handler)
{
	free(handler);
}
DEFINE_CLEANUP(struct handler *, handler_free);
DEFINE_CLEANUP(struct routing *, routing_free);

int routing_new(struct routing **out, struct err *err)
{
	struct routing *routing = calloc(1, sizeof(*routing));

	if (routing == NULL)
		return err_memory(err);
	*out = routing;
	return 0;
}

void routing_free(struct routing *routing)
{
	if (routing == NULL)
		return;
	for (size_t i = 0; i < routing->count; i++)
		handler_free(routing->handlers[i]);
	free(routing->handlers);
	free(routing);
}

static size_t text_size(const char *text)
{
	return text == NULL ? 0 : strlen(text) + 1;
}

static const char *place_text(char **at, const char *text)
{
	size_t size = text_size(text);
	char *placed = *at;

	if (text == NULL)
		return NULL;
	memcpy(placed, text, size);
	*at += size;
	return placed;
}

static size_t block_size(const char *name, const struct subscription *subs, size_t count)
{
	size_t size = sizeof(struct handler) + count * sizeof(struct route) + text_size(name);

	for (size_t i = 0; i < count; i++)
		size += text_size(subs[i].topic) + text_size(subs[i].type);
	return size;
}

static struct route route_of(char **at, const struct subscription *sub)
{
	/* "*" is the prefix of every type: the same wish as no type at all, so it must be equal. */
	bool any = sub->type == NULL || strcmp(sub->type, "*") == 0;
	struct route route = {
		.topic = place_text(at, sub->topic),
		.type = any ? NULL : place_text(at, sub->type),
	};

	route.topic_length = route.topic == NULL ? 0 : strlen(route.topic);
	route.type_length = route.type == NULL ? 0 : strlen(route.type);
	if (route.type_length > 0 && route.type[route.type_length - 1] == '*') {
		route.prefix = true;
		route.type_length--;
	}
	return route;
}

static bool same_text(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return strcmp(a, b) == 0;
}

static bool has_route(const struct handler *handler, const struct route *route)
{
	for (size_t i = 0; i < handler->count; i++) {
		if (same_text(handler->routes[i].topic, route->topic) &&
			same_text(handler->routes[i].type, route->type))
			return true;
	}
	return false;
}

static struct handler *handler_new(const char *name, const struct subscription *subs, size_t count)
{
	struct handler *handler = malloc(block_size(name, subs, count));
	char *at;

	if (handler == NULL)
		return NULL;
	at = (char *)&handler->routes[count];
	handler->closed = false;
	handler->count = 0;
	handler->name = place_text(&at, name);
	for (size_t i = 0; i < count; i++) {
		struct route route = route_of(&at, &subs[i]);

		if (!has_route(handler, &route))
			handler->routes[handler->count++] = route;
	}
	return handler;
}

/* Index of the handler, or the count when it is not in the table. */
static size_t index_of(const struct routing *routing, const char *name)
{
	size_t i = 0;

	while (i < routing->count && strcmp(routing->handlers[i]->name, name) != 0)
		i++;
	return i;
}

static int report_overlap(const struct handler *other, const struct route *route, struct err *err)
{
	(void)err_set(err, ROUTING_OVERLAP,
		"handler \"%s\" is already subscribed to topic %s%s%s, type %s%s%s: subscribe to "
		"something narrower, or connect under that name to share its work",
		other->name, route->topic == NULL ? "any" : "\"",
		route->topic == NULL ? "" : route->topic, route->topic == NULL ? "" : "\"",
		route->type == NULL ? "any" : "\"", route->type == NULL ? "" : route->type,
		route->type == NULL ? "" : "\"");
	return ROUTING_OVERLAP;
}

/* `wanted` against every handler but the one at `own`, whose routes it is going to replace. */
static int refuse_overlap(
	const struct routing *routing, size_t own, const struct handler *wanted, struct err *err)
{
	for (size_t i = 0; i < routing->count; i++) {
		for (size_t j = 0; i != own && j < wanted->count; j++) {
			if (has_route(routing->handlers[i], &wanted->routes[j]))
				return report_overlap(
					routing->handlers[i], &wanted->routes[j], err);
		}
	}
	return 0;
}

static int make_room(struct routing *routing, struct err *err)
{
	size_t capacity = routing->capacity == 0 ? 8 : routing->capacity * 2;
	struct handler **handlers;

	if (routing->count < routing->capacity)
		return 0;
	handlers = realloc(routing->handlers, capacity * sizeof(struct handler *));
	if (handlers == NULL)
		return err_memory(err);
	routing->handlers = handlers;
	routing->capacity = capacity;
	return 0;
}

int routing_set(struct routing *routing, const char *handler, const struct subscription *subs,
	size_t count, struct err *err)
{
	CLEANUP(handler_freep) struct handler *wanted = handler_new(handler, subs, count);
	size_t own = index_of(routing, handler);
	int r;

	if (wanted == NULL)
		return err_memory(err);
	r = refuse_overlap(routing, own, wanted, err);
	if (r == 0 && own == routing->count)
		r = make_room(routing, err);
	if (r != 0)
		return r;
	if (own == routing->count) {
		routing->count++;
	} else {
		wanted->closed = routing->handlers[own]->closed;
		handler_free(routing->handlers[own]);
	}
	routing->handlers[own] = wanted;
	wanted = NULL;
	return 0;
}

void routing_remove(struct routing *routing, const char *handler)
{
	size_t own = index_of(routing, handler);

	if (own == routing->count)
		return;
	handler_free(routing->handlers[own]);
	routing->count--;
	memmove(&routing->handlers[own], &routing->handlers[own + 1],
		(routing->count - own) * sizeof(struct handler *));
}

void routing_close(struct routing *routing, const char *handler, bool closed)
{
	size_t own = index_of(routing, handler);

	if (own < routing->count)
		routing->handlers[own]->closed = closed;
}

static int copy_handler(struct routing *to, const struct handler *from, struct err *err)
{
	CLEANUP(freep) struct subscription *subs = calloc(from->count + 1, sizeof(*subs));
	int r;

	if (subs == NULL)
		return err_memory(err);
	for (size_t i = 0; i < from->count; i++) {
		subs[i].topic = from->routes[i].topic;
		subs[i].type = from->routes[i].type;
	}
	r = routing_set(to, from->name, subs, from->count, err);
	if (r == 0)
		routing_close(to, from->name, from->closed);
	return r;
}

int routing_copy(struct routing **out, const struct routing *from, struct err *err)
{
	CLEANUP(routing_freep) struct routing *copy = NULL;
	int r = routing_new(&copy, err);

	for (size_t i = 0; r == 0 && i < from->count; i++)
		r = copy_handler(copy, from->handlers[i], err);
	if (r != 0)
		return r;
	*out = copy;
	copy = NULL;
	return 0;
}

/* How closely a route fits, 0 = not at all. The type counts before the topic; an exact type is one
 * step above the longest prefix that could fit, which is the whole type with a '*' behind it. */
static size_t fit(const struct route *route, const char *topic, size_t topic_length,
	const char *type, size_t type_length)
{
	size_t named = route->topic == NULL ? 1 : 2;

	if (route->topic != NULL && (route->topic_length != topic_length ||
					    memcmp(route->topic, topic, topic_length) != 0))
		return 0;
	if (route->type == NULL)
		return named;
	if (type == NULL || route->type_length > type_length ||
		memcmp(route->type, type, route->type_length) != 0)
		return 0;
	if (route->prefix)
		return named + 2 * (route->type_length + 1);
	return route->type_length == type_length ? named + 2 * (type_length + 2) : 0;
}

static const struct handler *find(
	const struct routing *routing, const char *topic, const char *type)
{
	size_t topic_length = strlen(topic);
	size_t type_length = type == NULL ? 0 : strlen(type);
	const struct handler *best = NULL;
	size_t best_fit = 0;

	for (size_t i = 0; i < routing->count; i++) {
		const struct handler *handler = routing->handlers[i];

		for (size_t j = 0; j < handler->count; j++) {
			size_t fits =
				fit(&handler->routes[j], topic, topic_length, type, type_length);

			if (fits > best_fit) {
				best_fit = fits;
				best = handler;
			}
		}
	}
	return best;
}

const char *routing_find(const struct routing *routing, const char *topic, const char *type)
{
	const struct handler *handler = find(routing, topic, type);

	return handler == NULL ? NULL : handler->name;
}

bool routing_wants(const struct routing *routing, const char *topic, const char *type)
{
	const struct handler *handler = find(routing, topic, type);

	return handler != NULL && !handler->closed;
}

static bool handler_serves(const struct handler *handler, const char *topic)
{
	for (size_t i = 0; i < handler->count && !handler->closed; i++) {
		const char *wanted = handler->routes[i].topic;

		if (wanted == NULL || strcmp(wanted, topic) == 0)
			return true;
	}
	return false;
}

bool routing_serves(const struct routing *routing, const char *topic)
{
	for (size_t i = 0; i < routing->count; i++) {
		if (handler_serves(routing->handlers[i], topic))
			return true;
	}
	return false;
}

void routing_each(const struct routing *routing, routing_visit *visit, void *arg)
{
	for (size_t i = 0; i < routing->count; i++) {
		const struct handler *handler = routing->handlers[i];

		for (size_t j = 0; j < handler->count; j++) {
			const struct subscription sub = {
				.topic = handler->routes[j].topic,
				.type = handler->routes[j].type,
			};

			visit(handler->name, handler->closed, &sub, arg);
		}
	}
}

size_t routing_count(const struct routing *routing)
{
	size_t count = 0;

	for (size_t i = 0; i < routing->count; i++)
		count += routing->handlers[i]->count;
	return count;
}
