/*
 * Limits repeated log lines. Of one event with one key, LOG_LIMIT_LINES lines pass in LOG_LIMIT_WINDOW_MS. The others
 * are counted, and the count can be taken when the window is over. It has a lock and is pure otherwise: the caller
 * supplies the time. Any thread.
 */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_LINES     10
#define LOG_LIMIT_WINDOW_MS 10000
#define LOG_LIMIT_PLACES    256 /* different lines at a time; all others share one more place */
#define LOG_LIMIT_KEY_BYTES 96

struct log_seen {
	char event[40]; /* "" = free; longer names are cut, and equal after the cut */
	char key[LOG_LIMIT_KEY_BYTES]; /* the subject of the event, cut */
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

/* True: write the line. False: it was counted. If the window is over, this starts another one, so take the counts
 * first. */
bool log_limit_pass(
	struct log_limit *limit, const char *event, const char *key, int level, int64_t now_ms);

/* Takes the count of one window that is over, or with `all` of any window. `out` gets event, key, level and count.
 * False: there is none. */
bool log_limit_take(struct log_limit *limit, int64_t now_ms, bool all, struct log_seen *out);

#endif
