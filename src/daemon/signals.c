/*
 * The thread that waits for signals. See signals.h. It uses sigtimedwait(2) instead of a handler, so that it can log and
 * take locks. It must never wait for anything else: it is the one that ends the process when other threads hang.
 */
#include "daemon/signals.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_output.h"
#include "base/threads/thread.h"
#include "base/time/clock.h"

#define LAST_LINES_MS 200
#define LOOK_MS       250
#define LATE_LOOK_MS  2000
#define GRACE_MS      2000 /* extra time after the shutdown timeout, for a library call that hangs */
#define AT_ONCE_MS    10000

/* What the thread knows about the process. */
struct watch {
	int64_t stop_by_ms; /* after the first signal; 0 = none came */
	int64_t look_ms;    /* the last look */
	int64_t regular_ms; /* since when no look was late */
	int32_t given_up;   /* the last instance whose lease was given up */
};

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

/* --- The time limits --------------------------------------------------------------------------- */

void signals_leave_hanging(int code)
{
	log_error("library_call_hangs", LOG_STR("next", "the process ends without waiting for it"));
	log_output_flush(LAST_LINES_MS);
	_exit(code);
}

static int64_t shutdown_ms(struct daemon *daemon)
{
	return atomic_load(&daemon->shown_config)->inbox.shutdown_timeout + GRACE_MS;
}

void signals_limit_end(struct daemon *daemon, bool at_once, int code)
{
	atomic_store(&daemon->end_code, code);
	atomic_store(
		&daemon->end_by_ms, clock_now_ms() + (at_once ? AT_ONCE_MS : shutdown_ms(daemon)));
}

void signals_lift_limit(struct daemon *daemon)
{
	atomic_store(&daemon->end_by_ms, 0);
}

/* A stopped process, or a host without a free CPU, delays all threads: only silence during regular looks counts. */
static const char *stalled_thread(struct watch *watch, int64_t now_ms, int64_t lease_ms)
{
	if (now_ms - watch->look_ms > LATE_LOOK_MS)
		watch->regular_ms = now_ms;
	watch->look_ms = now_ms;
	return progress_stalled(watch->regular_ms, lease_ms);
}

/* A thread that hangs holds messages, or a duty for which this instance is elected. As long as heartbeats renew the lease,
 * no other instance can take them over. If the main thread hangs, nothing else can end the instance. */
static void give_lease_up(struct daemon *daemon, const char *name, int64_t lease_ms)
{
	log_error("thread_hangs", LOG_STR("thread", name), LOG_INT("lease_ms", lease_ms),
		LOG_STR("next", "the lease is given up: another instance takes the messages over, "
				"and this process registers as a new instance, or ends"));
	signals_limit_end(daemon, true, -FAULT_INTERNAL);
	supervision_report_fenced(&daemon->supervision);
}

static void look(struct daemon *daemon, struct watch *watch)
{
	const int64_t now_ms = clock_now_ms();
	const int64_t end_by_ms = atomic_load(&daemon->end_by_ms);
	const int64_t lease_ms = atomic_load(&daemon->shown_config)->worker.lease;
	const int32_t instance = atomic_load(&daemon->instance);
	const char *name = stalled_thread(watch, now_ms, lease_ms);

	if (watch->stop_by_ms != 0 && now_ms >= watch->stop_by_ms)
		signals_leave_hanging(0);
	if (end_by_ms != 0 && now_ms >= end_by_ms)
		signals_leave_hanging(atomic_load(&daemon->end_code));
	if (name == NULL || watch->stop_by_ms != 0 || end_by_ms != 0 || instance == watch->given_up)
		return;
	watch->given_up = instance;
	give_lease_up(daemon, name, lease_ms);
}

/* --- The signals ------------------------------------------------------------------------------- */

static void on_stop_signal(struct daemon *daemon, struct watch *watch, int number)
{
	atomic_store(&daemon->health.stopping, true); /* from now on nothing new is delivered */
	if (atomic_exchange(&daemon->stop, true)) {
		log_warn("stopped_at_once", LOG_INT("signal", number),
			LOG_STR("next", "delivered messages are given back when the lease expires "
					"or at the next start"));
		log_output_flush(LAST_LINES_MS);
		_exit(0);
	}
	watch->stop_by_ms = clock_now_ms() + shutdown_ms(daemon);
	log_info("stopping", LOG_INT("signal", number),
		LOG_STR("next", "a second signal ends the process at once"));
	wake_poke(&daemon->supervision.wake);
}

static void *watch_signals(void *arg)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	struct daemon *daemon = arg;
	struct watch watch = { .stop_by_ms = 0 };
	sigset_t set = our_signals();
	int number = 0;

	(void)pthread_setname_np(pthread_self(), "signals");
	while (number != SIGUSR2) {
		number = sigtimedwait(&set, NULL, &pause);
		if (number == SIGHUP) {
			atomic_store(&daemon->reload, true);
			wake_poke(&daemon->supervision.wake);
		} else if (number == SIGTERM || number == SIGINT) {
			on_stop_signal(daemon, &watch, number);
		}
		look(daemon, &watch);
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
