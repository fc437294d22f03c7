/*
 * Implements watchdog.h.
 */
#include "daemon/watchdog.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void run(void *arg)
{
	struct watchdog *watchdog = arg;
	int64_t until_ms = clock_now_ms() + watchdog->timeout_ms;

	while (!thread_is_stopping(&watchdog->thread) && clock_now_ms() < until_ms)
		thread_pause(&watchdog->thread, until_ms - clock_now_ms());
	if (thread_is_stopping(&watchdog->thread))
		return;
	log_error("library_call_hangs", LOG_STR("next", "the process ends without waiting for it"));
	_exit(watchdog->code);
}

void watchdog_start(struct watchdog *watchdog, int64_t timeout_ms, int code)
{
	*watchdog = (struct watchdog){ .timeout_ms = timeout_ms, .code = code };
	if (thread_init(&watchdog->thread, NULL) != 0 ||
		thread_start(&watchdog->thread, "watchdog", run, watchdog, NULL) != 0)
		log_warn("no_watchdog",
			LOG_STR("next", "if a library call hangs, the process does not end"));
}

void watchdog_end(struct watchdog *watchdog)
{
	thread_request_stop(&watchdog->thread);
	thread_join(&watchdog->thread);
	thread_fini(&watchdog->thread);
}
