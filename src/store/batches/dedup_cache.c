/*
 * Implements dedup_cache.h as a set-associative table. Each set keeps its latest entries and drops
 * the oldest.
 */
#include "store/batches/dedup_cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/time/backoff.h"

#define SETS 4096 /* a power of two */
#define WAYS 8

struct fingerprint {
	uint64_t event;   /* hash of consumer, source and event id; 0: empty entry */
	uint64_t payload; /* hash of the payload's digest; 0: no payload (tombstone) */
};

struct dedup_cache {
	/* random, so that nobody outside can choose ids that share a set */
	uint64_t seed;
	struct fingerprint prints[SETS][WAYS]; /* the latest entry of each set comes first */
};

int dedup_cache_new(struct dedup_cache **out, struct err *err)
{
	struct dedup_cache *cache = calloc(1, sizeof(*cache));

	if (cache == NULL)
		return err_memory(err);
	cache->seed = random_u64();
	*out = cache;
	return 0;
}

void dedup_cache_free(struct dedup_cache *cache)
{
	free(cache);
}

static struct fingerprint print_of(const struct dedup_cache *cache, const struct message *message)
{
	const char *id = message->event_id;
	const char *source = message->source;
	const char *consumer = message->consumer;
	uint64_t seed = *consumer == '\0'
				? cache->seed
				: XXH3_64bits_withSeed(consumer, strlen(consumer), cache->seed);
	struct fingerprint print = { .event = 0 };

	seed = XXH3_64bits_withSeed(source, strlen(source), seed);
	print.event = XXH3_64bits_withSeed(id, strlen(id), seed) | 1;
	if (message->payload.data != NULL)
		print.payload = XXH3_64bits_withSeed(
					message->digest, sizeof(message->digest), cache->seed) |
				1;
	return print;
}

static size_t set_of(struct fingerprint print)
{
	return (size_t)(print.event >> 32) % SETS;
}

/* The position of the event in its set; WAYS: not found. */
static size_t find_in_set(const struct fingerprint *set, uint64_t event)
{
	size_t i = 0;

	while (i < WAYS && set[i].event != event)
		i++;
	return i;
}

/* Moves the entry to the front of its set, so that the oldest entry is dropped first. */
void dedup_cache_add(struct dedup_cache *cache, const struct message *message)
{
	const struct fingerprint print = print_of(cache, message);
	struct fingerprint *set = cache->prints[set_of(print)];
	size_t at = find_in_set(set, print.event);

	memmove(set + 1, set, (at < WAYS ? at : WAYS - 1) * sizeof(*set));
	set[0] = print;
}

bool dedup_cache_has(const struct dedup_cache *cache, const struct message *message)
{
	const struct fingerprint print = print_of(cache, message);
	const struct fingerprint *set = cache->prints[set_of(print)];
	size_t at = find_in_set(set, print.event);

	return at < WAYS && set[at].payload == print.payload;
}

void dedup_cache_forget(struct dedup_cache *cache)
{
	memset(cache->prints, 0, sizeof(cache->prints));
}
