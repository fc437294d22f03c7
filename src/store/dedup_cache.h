/*
 * The events that this process stored last, as fingerprints of identity and payload. Most duplicates are retries of a
 * producer and repeat byte for byte what was stored a moment ago: for those nobody has to ask the table whether their
 * payload is another than what is stored. 512 KiB: most of the last 20,000 events, however old they are.
 *
 * It never decides whether an event is new: only the table's primary key does. What it says is: with this payload, and
 * with no other since, this process stored the event or found nothing else stored. It does not see what others do to
 * the row. So it is to be forgotten when what was added comes to nothing, and when others may have stored what is
 * ours to read from now on.
 * One thread.
 */
#ifndef STORE_DEDUP_CACHE_H
#define STORE_DEDUP_CACHE_H

#include <stdbool.h>

#include "model/message.h"

struct dedup_cache;

/* FAULT_MEMORY. */
int dedup_cache_new(struct dedup_cache **out, struct err *err);
void dedup_cache_free(struct dedup_cache *cache);

/* From now on with this payload. */
void dedup_cache_add(struct dedup_cache *cache, const struct message *message);
/* Same source and event id, and the payload it was last added with (absent is not empty), but for a collision of
 * two hashes of 63 bits. */
bool dedup_cache_has(const struct dedup_cache *cache, const struct message *message);
/* All of them. */
void dedup_cache_forget(struct dedup_cache *cache);

#endif
