/*
 * A table of the lines that were written lately. See log_limit.h. Its size is fixed, so that a flood of different lines
 * takes no memory; the search is linear, because a line that is written costs more than 256 comparisons.
 */
#include "base/log_limit.h"

#include <stdio.h>
#include <string.h>

static bool is_free(const struct log_seen *seen)
{
	return seen->event[0] == '\0';
}

static bool is_over(const struct log_seen *seen, int64_t now_ms)
{
	return now_ms - seen->since_ms >= LOG_LIMIT_WINDOW_MS;
}

static void begin(struct log_seen *seen, const struct log_seen *wanted, int64_t now_ms)
{
	*seen = *wanted;
	seen->since_ms = now_ms;
}

/* The place of this event and key. A new one gets a free place, or the shared one if there is none. */
static struct log_seen *find(struct log_limit *limit, const struct log_seen *wanted, int64_t now_ms)
{
	static const struct log_seen others = { .event = "various" };
	struct log_seen *room = NULL;
	struct log_seen *shared = &limit->seen[LOG_LIMIT_PLACES];

	for (size_t i = 0; i < LOG_LIMIT_PLACES; i++) {
		struct log_seen *seen = &limit->seen[i];

		if (strcmp(seen->event, wanted->event) == 0 && strcmp(seen->key, wanted->key) == 0)
			return seen;
		/* a place with a count is only freed by log_limit_take(), so that no count is lost */
		if (room == NULL && (is_free(seen) || (seen->held == 0 && is_over(seen, now_ms))))
			room = seen;
	}
	if (room != NULL) {
		begin(room, wanted, now_ms);
		return room;
	}
	if (is_free(shared))
		begin(shared, &others, now_ms);
	return shared;
}

bool log_limit_pass(
	struct log_limit *limit, const char *event, const char *key, int level, int64_t now_ms)
{
	struct log_seen wanted = { .event = "" };
	struct log_seen *seen;
	bool pass;

	(void)snprintf(wanted.event, sizeof(wanted.event), "%s", event);
	(void)snprintf(wanted.key, sizeof(wanted.key), "%s", key);
	(void)pthread_mutex_lock(&limit->lock);
	seen = find(limit, &wanted, now_ms);
	if (is_over(seen, now_ms)) {
		seen->since_ms = now_ms;
		seen->passed = 0;
	}
	pass = seen->passed < LOG_LIMIT_LINES;
	if (pass) {
		seen->passed++;
	} else {
		if (seen->held == 0)
			seen->level = level;
		seen->held++;
	}
	(void)pthread_mutex_unlock(&limit->lock);
	return pass;
}

bool log_limit_take(struct log_limit *limit, int64_t now_ms, bool all, struct log_seen *out)
{
	bool found = false;

	(void)pthread_mutex_lock(&limit->lock);
	for (size_t i = 0; i <= LOG_LIMIT_PLACES && !found; i++) {
		struct log_seen *seen = &limit->seen[i];

		found = seen->held > 0 && (all || is_over(seen, now_ms));
		if (found) {
			*out = *seen;
			*seen = (struct log_seen){ .event = "" };
		}
	}
	(void)pthread_mutex_unlock(&limit->lock);
	return found;
}
