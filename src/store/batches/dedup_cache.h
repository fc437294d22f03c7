/*
 * A cache of the events that this process stored last, as fingerprints of identity and payload. It
 * uses 512 KiB and holds most of the last 20,000 events.
 *
 * Purpose: most duplicates are retries of a producer and repeat, byte for byte, a recently stored
 * message. For them the cache saves the query that compares the payload with the stored one.
 *
 * It promises: this process stored the event with this payload, or found it stored, and it has
 * stored no other payload since. It does not observe changes by other instances. It must be cleared
 * when a batch that added entries is not committed, and when this instance becomes the owner of
 * partitions.
 *
 * It must not decide whether an event is new: only the primary key of the table does. One thread.
 */
#ifndef STORE_BATCHES_DEDUP_CACHE_H
#define STORE_BATCHES_DEDUP_CACHE_H

#include <stdbool.h>

#include "model/message/message.h"

struct dedup_cache;

/* FAULT_MEMORY. */
int dedup_cache_new(struct dedup_cache **out, struct err *err);
void dedup_cache_free(struct dedup_cache *cache);

/* Adds the event, or replaces the payload of its entry. */
void dedup_cache_add(struct dedup_cache *cache, const struct message *message);
/* True when the entry has the same consumer, source, event id and payload (a missing payload differs from an
 * empty one). A collision of two 63-bit hashes can give a wrong answer. */
bool dedup_cache_has(const struct dedup_cache *cache, const struct message *message);
/* Removes all entries. */
void dedup_cache_forget(struct dedup_cache *cache);

#endif
