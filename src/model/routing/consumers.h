/*
 * The known consumers, and which of them want a message: each consumer names topics and event types, or wants all.
 * A list has every consumer once. Pure. One thread.
 */
#ifndef MODEL_ROUTING_CONSUMERS_H
#define MODEL_ROUTING_CONSUMERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "model/message/ordering.h"

struct texts {
	char **items;
	size_t count;
};

struct consumer {
	char *name; /* "" = the one without a name */
	enum ordering ordering;
	struct texts
		topics; /* names, or extended regular expressions that start with ^; none = all */
	struct texts types; /* '*' at the end = prefix; none = all */
	bool unlisted;      /* no running sidecar lists it */
};

/* An earlier name, which still means the consumer. `moving`: rows of the table still have it. */
struct consumer_rename {
	char *from;
	char *to;
	bool moving;
};

struct consumers {
	struct consumer *items;
	size_t count;
	struct consumer_rename *renames;
	size_t rename_count;
	struct texts unnamed; /* handlers of the consumer without a name, while it is known */
};

#define CONSUMERS_INIT                                                                             \
	{                                                                                          \
		.items = NULL                                                                      \
	}

void consumers_fini(struct consumers *consumers);
/* The consumer of this name, or NULL. */
struct consumer *consumers_find(const struct consumers *consumers, const char *name);
/* Adds a consumer that wants everything; it is valid until the next call. NULL: no memory. */
struct consumer *consumers_add(
	struct consumers *consumers, const char *name, enum ordering ordering);
/* Adds a topic or a type that the consumer wants. FAULT_MEMORY. */
int consumer_add_topic(struct consumer *consumer, const char *topic, struct err *err);
int consumer_add_type(struct consumer *consumer, const char *type, struct err *err);
/* Adds a copy of the consumer. FAULT_MEMORY. */
int consumers_copy(struct consumers *consumers, const struct consumer *from, struct err *err);

/* Adds a rename, or a handler of the consumer without a name. FAULT_MEMORY. */
int consumers_add_rename(struct consumers *consumers, const char *from, const char *to, bool moving,
	struct err *err);
int consumers_add_unnamed(struct consumers *consumers, const char *handler, struct err *err);
/* Adds copies of the renames and of these handlers. FAULT_MEMORY. */
int consumers_copy_names(
	struct consumers *consumers, const struct consumers *from, struct err *err);
/* The name that the consumer has now: another one if it was renamed. */
const char *consumers_present_name(const struct consumers *consumers, const char *name);
/* True when rows of any renamed consumer still have an earlier name. */
bool consumers_are_moving(const struct consumers *consumers);
bool consumers_have_same_names(const struct consumers *a, const struct consumers *b);
/* The consumer of a handler: the one that it names; else the one without a name if the handler belonged to it, so that a new consumer
 * takes no handler away from it; else the one that is called like the handler; else the one without a name. `is_known` decides
 * which exist. NULL: none of them. */
const char *consumers_of_handler(const struct consumers *consumers, const char *handler,
	const char *named, const char *(*is_known)(void *arg, const char *name), void *arg);

bool consumer_wants_topic(const struct consumer *consumer, const char *topic);
/* A message without a type (NULL) is wanted by those that want all types. */
bool consumer_wants_type(const struct consumer *consumer, const char *type);
/* True when both have the same topics, types and ordering, and running sidecars list both or neither. */
bool consumer_equals(const struct consumer *a, const struct consumer *b);

/* True if an entry of kafka.topics or of a consumer's topics means this topic: its name, or a regular expression that
 * begins with ^. */
bool topic_fits(const char *entry, const char *topic);

#endif
