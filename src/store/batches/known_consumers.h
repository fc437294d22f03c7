/*
 * The table inbox_consumers: every consumer that an instance of the schema lists, or has listed within its memory.
 * All instances store messages for all of them, so that a rolling update that adds a consumer leaves no gap (ADR 0031).
 * Blocking. One db, one thread: the ingest thread, while no batch is sent, a worker, and the main thread before an instance run.
 */
#ifndef STORE_BATCHES_KNOWN_CONSUMERS_H
#define STORE_BATCHES_KNOWN_CONSUMERS_H

#include "model/routing/consumers.h"
#include "store/pg/db.h"

struct consumers_listing {
	const struct consumers *own; /* those that this instance lists */
	int64_t memory_ms; /* how long they are known after this call: known_consumers_memory_ms() */
	bool define;       /* this instance has just registered: its definitions replace others */
	/* Called for each definition that was replaced; `before` and `after` are JSON. */
	void (*replaced)(void *arg, const char *name, const char *before, const char *after);
	void *arg;
};

/* inbox.handler_memory, and the time of a lease more, because their notes are repeated now and then. */
static inline int64_t known_consumers_memory_ms(int64_t handler_memory_ms, int64_t lease_ms)
{
	return handler_memory_ms + lease_ms;
}

/* Records the consumers that this instance lists. KNOWN_CONSUMERS_LOCKED: a row was locked and is not recorded. */
enum { KNOWN_CONSUMERS_LOCKED = 1 };
int known_consumers_keep(struct db *db, const struct consumers_listing *listing, struct err *err);
/* Adds the known consumers, the renames, and the handlers of the consumer without a name to `out`. */
int known_consumers_read(struct db *db, struct consumers *out, struct err *err);

#endif
