/*
 * The thread that waits for signals. See signals.h. It uses sigwait(3) instead of a handler, so
 * that it can log and take locks. It only sets flags and wakes the main thread, which does the
 * work.
 */
#include "daemon/signals.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_output.h"

#define LAST_LINES_MS 200

static sigset_t our_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR2); /* ends the thread */
	return set;
}

static void on_stop_signal(struct daemon *daemon, int number)
{
	atomic_store(&daemon->health.stopping, true); /* from now on nothing new is delivered */
	if (atomic_exchange(&daemon->stop, true)) {
		log_warn("stopped_at_once", LOG_INT("signal", number),
			LOG_STR("next", "delivered messages are given back when the lease expires "
					"or at the next start"));
		log_output_flush(LAST_LINES_MS);
		_exit(0);
	}
	log_info("stopping", LOG_INT("signal", number),
		LOG_STR("next", "a second signal ends the process at once"));
	wake_poke(&daemon->supervision.wake);
}

static void *watch_signals(void *arg)
{
	struct daemon *daemon = arg;
	sigset_t set = our_signals();
	int number = 0;

	(void)pthread_setname_np(pthread_self(), "signals");
	while (sigwait(&set, &number) == 0 && number != SIGUSR2) {
		if (number == SIGHUP) {
			atomic_store(&daemon->reload, true);
			wake_poke(&daemon->supervision.wake);
		} else {
			on_stop_signal(daemon, number);
		}
	}
	return NULL;
}

int signals_start(struct daemon *daemon, struct err *err)
{
	sigset_t set = our_signals();

	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* every thread inherits the mask */
	if (pthread_create(&daemon->signal_thread, NULL, watch_signals, daemon) != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the signal thread");
	daemon->signals_started = true;
	return 0;
}

void signals_end(struct daemon *daemon)
{
	if (!daemon->signals_started)
		return;
	(void)pthread_kill(daemon->signal_thread, SIGUSR2);
	(void)pthread_join(daemon->signal_thread, NULL);
}
