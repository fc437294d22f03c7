#include "watchdog.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void *run(void *arg)
{
	struct watchdog *watchdog = arg;
	int64_t until_ms = clock_now_ms() + watchdog->timeout_ms;

	(void)pthread_setname_np(pthread_self(), "watchdog");
	while (clock_now_ms() < until_ms) {
		if (wake_wait(&watchdog->wake, until_ms - clock_now_ms()) == 1)
			return NULL;
	}
	log_error("library_call_hangs", LOG_STR("next", "the process ends without waiting for it"));
	_exit(watchdog->code);
}

void watchdog_start(struct watchdog *watchdog, int64_t timeout_ms, int code)
{
	*watchdog = (struct watchdog){ .wake = WAKE_INIT, .timeout_ms = timeout_ms, .code = code };
	watchdog->started = wake_init(&watchdog->wake, NULL) == 0 &&
			    pthread_create(&watchdog->thread, NULL, run, watchdog) == 0;
	if (!watchdog->started)
		log_warn("no_watchdog",
			LOG_STR("next", "a library call that hangs now holds up the end"));
}

void watchdog_end(struct watchdog *watchdog)
{
	if (watchdog->started) {
		wake_poke(&watchdog->wake);
		(void)pthread_join(watchdog->thread, NULL);
	}
	watchdog->started = false;
	wake_fini(&watchdog->wake);
}
