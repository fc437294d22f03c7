#include "store/recent.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/backoff.h"

#define SETS 4096 /* a power of two */
#define WAYS 8

struct fingerprint {
	uint64_t event;   /* source and event id; 0: nothing here */
	uint64_t payload; /* of its digest; 0: a tombstone */
};

struct recent {
	uint64_t seed;                         /* nobody outside chooses who shares a set */
	struct fingerprint prints[SETS][WAYS]; /* the latest of each set first */
};

int recent_new(struct recent **out, struct err *err)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (recent == NULL)
		return err_memory(err);
	recent->seed = random_u64();
	*out = recent;
	return 0;
}

void recent_free(struct recent *recent)
{
	free(recent);
}

static uint64_t payload_print(const struct recent *recent, const struct message *message)
{
	if (message->payload.data == NULL)
		return 0;
	return XXH3_64bits_withSeed(message->digest, sizeof(message->digest), recent->seed) | 1;
}

static struct fingerprint print_of(const struct recent *recent, const struct message *message)
{
	const char *id = message->event_id;
	const char *source = message->source;
	uint64_t seed = XXH3_64bits_withSeed(source, strlen(source), recent->seed);

	return (struct fingerprint){
		.event = XXH3_64bits_withSeed(id, strlen(id), seed) | 1,
		.payload = payload_print(recent, message),
	};
}

static size_t set_of(struct fingerprint print)
{
	return (size_t)(print.event >> 32) % SETS;
}

/* Where the event is in its set; WAYS: nowhere. */
static size_t find(const struct fingerprint *set, uint64_t event)
{
	size_t i = 0;

	while (i < WAYS && set[i].event != event)
		i++;
	return i;
}

void recent_add(struct recent *recent, const struct message *message)
{
	const struct fingerprint print = print_of(recent, message);
	struct fingerprint *set = recent->prints[set_of(print)];
	size_t at = find(set, print.event);

	memmove(set + 1, set, (at < WAYS ? at : WAYS - 1) * sizeof(*set));
	set[0] = print;
}

bool recent_has(const struct recent *recent, const struct message *message)
{
	const struct fingerprint print = print_of(recent, message);
	const struct fingerprint *set = recent->prints[set_of(print)];
	size_t at = find(set, print.event);

	return at < WAYS && set[at].payload == print.payload;
}

void recent_forget(struct recent *recent)
{
	memset(recent->prints, 0, sizeof(recent->prints));
}
