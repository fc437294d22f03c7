/*
 * Keeps a log line that may come a thousand times a second to a few in a while: `burst` lines every
 * `every_ms`, then the number of those held back goes with the next one. Any thread.
 */
#ifndef INGEST_FAULT_LOG_LIMIT_H
#define INGEST_FAULT_LOG_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct fault_log_limit {
	pthread_mutex_t lock;
	int64_t every_ms;
	int64_t burst;
	int64_t since_ms; /* start of the window */
	int64_t passed;   /* in the window */
	int64_t held;     /* since the last one that passed */
};

#define LIMIT_INIT(lines, ms)                                                                      \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .every_ms = (ms), .burst = (lines)              \
	}

/* True: write the line; `held` receives how many were not written before it. */
bool fault_log_limit_pass(struct fault_log_limit *limit, int64_t now_ms, int64_t *held);

#endif
