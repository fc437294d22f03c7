/*
 * The last resort at the end of the process (G9). A call of a library may hang in any thread, and the thread that
 * waits for it hangs, too. The watchdog ends the process after a limit, whatever the other threads do. The rows that
 * they held go back to waiting when the lease is over. Used by the main thread.
 */
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include <stdint.h>

#include "base/thread.h"

struct watchdog {
	struct thread thread;
	int64_t timeout_ms;
	int code;
};

/* Ends the process with this exit code after timeout_ms, unless watchdog_end() is called first. When the thread cannot
 * be started there is no watchdog; the log says so. */
void watchdog_start(struct watchdog *watchdog, int64_t timeout_ms, int code);
void watchdog_end(struct watchdog *watchdog);

#endif
