/*
 * Implements relay_topics.h.
 */
#include "ingest/relay/relay_topics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/time/clock.h"

#define CHECK_AGAIN_MS 300000
#define CHECK_SOON_MS  5000
#define FIRST_ROOM     16
#define TIDY_LEAST     1024

static void topic_free(struct relay_topic *topic)
{
	free(topic->name);
	free(topic);
}

void relay_topics_fini(struct relay_topics *topics)
{
	for (size_t i = 0; i < topics->count; i++)
		topic_free(topics->items[i]);
	free(topics->items);
	*topics = (struct relay_topics){ .items = NULL };
}

static size_t find(const struct relay_topics *topics, uint64_t hash)
{
	size_t low = 0;
	size_t high = topics->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (topics->items[middle]->hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int make_room(struct relay_topics *topics)
{
	size_t room = topics->room == 0 ? FIRST_ROOM : topics->room * 2;
	struct relay_topic **items;

	if (topics->count < topics->room)
		return 0;
	items = realloc(topics->items, room * sizeof(struct relay_topic *));
	if (items == NULL)
		return FAULT_MEMORY;
	topics->items = items;
	topics->room = room;
	return 0;
}

struct relay_topic *relay_topics_get(struct relay_topics *topics, const char *name, uint64_t hash)
{
	size_t at = find(topics, hash);
	struct relay_topic *topic;

	if (at < topics->count && topics->items[at]->hash == hash)
		return topics->items[at];
	topic = make_room(topics) < 0 ? NULL : calloc(1, sizeof(*topic));
	if (topic == NULL)
		return NULL;
	topic->name = strdup(name);
	topic->hash = hash;
	if (topic->name == NULL) {
		free(topic);
		return NULL;
	}
	memmove(&topics->items[at + 1], &topics->items[at],
		(topics->count - at) * sizeof(struct relay_topic *));
	topics->items[at] = topic;
	topics->count++;
	return topic;
}

static bool is_checked(const struct relay_topic *topic, int64_t now_ms)
{
	return topic->checked_ms != 0 && now_ms - topic->checked_ms < CHECK_AGAIN_MS;
}

/* The next time comes after as many topics again, so the time for it is linear in their number. */
bool relay_topics_tidy(struct relay_topics *topics)
{
	int64_t now_ms = clock_now_ms();
	size_t count = topics->count;

	if (count < TIDY_LEAST || count < topics->tidy_at)
		return false;
	topics->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_checked(topics->items[i], now_ms))
			topics->items[topics->count++] = topics->items[i];
		else
			topic_free(topics->items[i]);
	}
	topics->tidy_at = 2 * topics->count;
	return topics->count < count;
}

static int cannot_be_used(struct relay_topic *topic, const char *why)
{
	(void)snprintf(topic->why, sizeof(topic->why), "%.*s", (int)sizeof(topic->why) - 1, why);
	return RELAY_TOPIC_HELD;
}

int relay_topic_check(struct relay_topic *topic, struct producer *producer, struct err *err)
{
	int64_t now_ms = clock_now_ms();
	int r;

	if (is_checked(topic, now_ms))
		return 0;
	r = producer_look(producer, topic->name, err);
	if (r == PRODUCER_NO_TOPIC)
		return cannot_be_used(topic, "the topic does not exist, or is not visible with "
					     "these credentials: create it, or grant DESCRIBE and "
					     "WRITE");
	if (r == PRODUCER_BAD_TOPIC)
		return cannot_be_used(topic, err->text);
	if (r != 0)
		return r;
	if (producer_leaderless(producer) > 0)
		return cannot_be_used(topic, "a partition of the topic has no leader");
	producer_topic_rules(producer, topic->name, &topic->rules);
	topic->checked_ms = now_ms;
	return 0;
}

static void add_limit(struct buf *out, const char *name, int64_t ms)
{
	if (ms >= 0 && ms < INT64_MAX)
		buf_addf(out, ", %s=%" PRId64, name, ms);
}

const char *relay_topic_explain_time(struct relay_topic *topic)
{
	CLEANUP(buf_fini) struct buf limits = BUF_INIT;
	char now[32];

	clock_format_ms(clock_wall_us() / 1000, now);
	add_limit(&limits, "message.timestamp.before.max.ms", topic->rules.before_ms);
	add_limit(&limits, "message.timestamp.after.max.ms", topic->rules.after_ms);
	(void)snprintf(topic->why, sizeof(topic->why),
		"the brokers refuse the time of this host's clock, %s: it differs from theirs by "
		"more than the topic allows%s",
		now,
		limits.length == 0 ? " (message.timestamp.before.max.ms and .after.max.ms)"
				   : buf_str(&limits));
	return topic->why;
}

void relay_topic_check_soon(struct relay_topic *topic)
{
	int64_t early_ms = clock_now_ms() - CHECK_AGAIN_MS + CHECK_SOON_MS;

	if (topic->checked_ms > early_ms)
		topic->checked_ms = early_ms;
}
