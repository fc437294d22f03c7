/*
 * Limits a log line that could be repeated thousands of times a second: `burst` lines are written
 * in every_ms, the others are counted, and the count is added to the next line. Any thread.
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
	int64_t passed;   /* lines written in the window */
	int64_t held;     /* lines suppressed since the last written one */
};

#define LIMIT_INIT(lines, ms)                                                                      \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .every_ms = (ms), .burst = (lines)              \
	}

/* True: write the line. `held` receives the number of suppressed lines before it. */
bool fault_log_limit_pass(struct fault_log_limit *limit, int64_t now_ms, int64_t *held);

#endif
