/*
 * Implements claim_params.h.
 */
#include "store/claims/claim_params.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

void add_hash(struct params *params, int array, uint64_t hash)
{
	uint64_t wire = htobe64(hash);

	array_bytes(params, array, (struct bytes){ &wire, sizeof(wire) });
}

uint64_t hash_of(struct bytes bytes)
{
	uint64_t wire = 0;

	if (bytes.data != NULL && bytes.length == sizeof(wire))
		memcpy(&wire, bytes.data, sizeof(wire));
	return be64toh(wire);
}

/* The numbers that the SQL statements use. */
enum type_kind { TYPE_ANY = 0, TYPE_PREFIX = 1, TYPE_EXACT = 2 };

struct want {
	const char *consumer;
	const char *handler;
	const char *topic;
	const char *type;
	size_t length; /* of the type, without the '*' */
	enum type_kind kind;
	bool open;
};

struct wants {
	struct want *items;
	size_t count;
	bool closed_too;
};

static void collect(const struct routed *routed, void *arg)
{
	struct wants *wants = arg;
	struct want *want = &wants->items[wants->count++];
	const struct subscription *sub = &routed->sub;

	*want = (struct want){
		.consumer = routed->handler.consumer,
		.handler = routed->handler.name,
		.topic = sub->topic,
		.type = sub->type,
		.open = !routed->away && (wants->closed_too || !routed->closed),
	};
	if (sub->type == NULL)
		return;
	want->length = strlen(sub->type);
	want->kind = TYPE_EXACT;
	if (want->length > 0 && sub->type[want->length - 1] == '*') {
		want->kind = TYPE_PREFIX;
		want->length--;
	}
}

/* Sorts by the rank of model/routing/routing.h: exact type, longer prefix, any type; then a named topic
 * before any topic. */
static int more_specific_first(const void *a, const void *b)
{
	const struct want *first = a;
	const struct want *second = b;

	if (first->kind != second->kind)
		return (int)second->kind - (int)first->kind;
	if (first->kind == TYPE_PREFIX && first->length != second->length)
		return first->length < second->length ? 1 : -1;
	return (second->topic != NULL) - (first->topic != NULL);
}

static void add_wishes(struct params *params, const struct wants *wants)
{
	int consumer = params_array(params, ARRAY_TEXT);
	int topic = params_array(params, ARRAY_TEXT);
	int type = params_array(params, ARRAY_TEXT);
	int kind = params_array(params, ARRAY_SMALLINT);
	int open = params_array(params, ARRAY_BOOL);

	for (size_t i = 0; i < wants->count; i++) {
		const struct want *want = &wants->items[i];
		struct bytes text = { want->type, want->length };

		array_text(params, consumer, want->consumer);
		array_text(params, topic, want->topic);
		array_bytes(params, type, text);
		array_smallint(params, kind, (int16_t)want->kind);
		array_bool(params, open, want->open);
	}
}

static void add_handlers(struct params *params, const struct wants *wants)
{
	int handler = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < wants->count; i++)
		array_text(params, handler, wants->items[i].handler);
}

static int add(
	struct params *params, const struct routing *routing, bool closed_too, struct err *err)
{
	size_t room = routing == NULL ? 0 : routing_count(routing);
	CLEANUP(freep) struct want *items = calloc(room + 1, sizeof(*items));
	struct wants wants = { items, 0, closed_too };

	if (items == NULL)
		return err_memory(err);
	if (routing != NULL)
		routing_each(routing, collect, &wants);
	qsort(items, wants.count, sizeof(*items), more_specific_first);
	add_wishes(params, &wants);
	if (closed_too)
		add_handlers(params, &wants);
	return 0;
}

void add_seqs_without(struct params *params, const struct refused_seqs *without)
{
	int seq = params_array(params, ARRAY_BIGINT);

	for (size_t i = 0; without != NULL && i < without->count; i++)
		array_bigint(params, seq, without->items[i]);
}

int add_subscriptions(struct params *params, const struct routing *routing, struct err *err)
{
	return add(params, routing, false, err);
}

int add_connected(struct params *params, const struct routing *routing, struct err *err)
{
	return add(params, routing, true, err);
}
