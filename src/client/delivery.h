/*
 * A delivery in the memory of the handler, and the pool of deliveries for reuse. A delivery is in one list at a time:
 * spare, ready (received, and the program has not seen it) or open (handed out to the program). One thread.
 */
#ifndef CLIENT_DELIVERY_H
#define CLIENT_DELIVERY_H

#include <sys/queue.h>

#include "client/record.h"

/* A Kafka header, or an attribute of the event that has no field of its own. */
struct ih_pair {
	struct ih_slice name;
	struct ih_slice value;
};

struct ih_pairs {
	struct ih_pair *items;
	size_t count;
	size_t capacity;
};

/* A deliver_batch request. Its entries are answered in one line, after the last of them has its verdict. */
struct ih_batch {
	struct ih_buffer id;      /* raw JSON */
	struct ih_buffer answers; /* entries answered so far, with commas between them */
	size_t open;              /* entries without a verdict */
	size_t ready;             /* entries that are not handed out */
	bool lost;                /* its connection is lost, so the answers are not sent */
};

struct inbox_delivery {
	TAILQ_ENTRY(inbox_delivery) list;
	struct inbox_handler *handler;
	struct ih_batch *batch; /* NULL = delivered alone */
	struct ih_record record;
	struct ih_pairs headers;
	struct ih_pairs attributes;
	const char *cancelled; /* the reason; NULL = it is not cancelled */
	const char *broken;    /* how it violates the protocol; NULL = it does not */
};

TAILQ_HEAD(ih_deliveries, inbox_delivery);

struct ih_pool {
	struct ih_deliveries spare;
	size_t count;
};

void ih_pool_init(struct ih_pool *pool);
void ih_pool_fini(struct ih_pool *pool);
/* An empty delivery in no list, or NULL when out of memory. */
struct inbox_delivery *ih_pool_take(struct ih_pool *pool);
/* Returns a delivery, which must be in no list, to the pool. */
void ih_pool_give(struct ih_pool *pool, struct inbox_delivery *delivery);
/* Returns all deliveries of a list to the pool. */
void ih_pool_give_all(struct ih_pool *pool, struct ih_deliveries *list);

/* Adds an empty pair. NULL when out of memory. */
struct ih_pair *ih_pairs_add(struct ih_pairs *pairs);

/* NULL when out of memory. */
struct ih_batch *ih_batch_new(struct inbox_bytes id);
void ih_batch_free(struct ih_batch *batch);

#endif
