/*
 * Keeps a line that comes again and again from burying the others: of one event about one thing LOG_LIMIT_LINES lines
 * pass in LOG_LIMIT_WINDOW_MS, the others are counted, and when the window is over the count can be taken. Pure but
 * for its lock: time is the caller's. Any thread.
 */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_LINES     10
#define LOG_LIMIT_WINDOW_MS 10000
#define LOG_LIMIT_PLACES    256 /* different ones at a time; all others share one more place */
#define LOG_LIMIT_KEY_BYTES 96

struct log_seen {
	char event[40]; /* "" = free; what is longer is cut, and then counts as the same */
	char key[LOG_LIMIT_KEY_BYTES]; /* what the event is about, cut */
	int level;                     /* of the first line that was held back */
	int64_t since_ms;
	int64_t passed;
	int64_t held;
};

struct log_limit {
	pthread_mutex_t lock;
	struct log_seen seen[LOG_LIMIT_PLACES + 1];
};

#define LOG_LIMIT_INIT                                                                             \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER                                                  \
	}

/* True: write the line; else it is counted. A line of a window that is over begins another one, so take
 * the counts first. */
bool log_limit_pass(
	struct log_limit *limit, const char *event, const char *key, int level, int64_t now_ms);

/* Takes what was held back in a window that is over, or (`all`) in any: event, key, level and count are in
 * `out`, and that window is forgotten. False: there is none. */
bool log_limit_take(struct log_limit *limit, int64_t now_ms, bool all, struct log_seen *out);

#endif
