/*
 * The last resort of an end (G9): a call of a library may hang in any thread, and whoever waits for that thread
 * hangs with it. A watchdog ends the process when its time is over, whatever the others do; what they held
 * is given back by the lease. Used by the main thread.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wake.h"

struct watchdog {
	struct wake wake;
	pthread_t thread;
	int64_t timeout_ms;
	int code;
	bool started;
};

/* In timeout_ms the process ends with this exit code, unless watchdog_end() is called before. Without
 * memory for it there is none, and the log says so. */
void watchdog_start(struct watchdog *watchdog, int64_t timeout_ms, int code);
void watchdog_end(struct watchdog *watchdog);

#endif
