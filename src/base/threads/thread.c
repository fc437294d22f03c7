/*
 * The thread. See thread.h. pthread_join(3) has no time limit; therefore a thread announces its end with a wake-up, and
 * thread_wait() waits for that.
 */
#include "base/threads/thread.h"

#include <signal.h>
#include <string.h>

#include "base/time/clock.h"

int thread_init(struct thread *thread, struct err *err)
{
	int r;

	*thread = (struct thread)THREAD_INIT;
	r = wake_init(&thread->wake, err);
	return r != 0 ? r : wake_init(&thread->end, err);
}

void thread_fini(struct thread *thread)
{
	wake_fini(&thread->wake);
	wake_fini(&thread->end);
}

static void *run(void *arg)
{
	struct thread *thread = arg;

	(void)pthread_setname_np(pthread_self(), thread->name);
	if (thread->watched)
		progress_enter(&thread->progress, thread->name, &thread->stop);
	thread->run(thread->arg);
	if (thread->watched)
		progress_leave(&thread->progress);
	atomic_store(&thread->ended, true);
	wake_poke(&thread->end);
	return NULL;
}

void thread_watch(struct thread *thread)
{
	thread->watched = true;
}

int thread_start(struct thread *thread, const char *name, void (*run_it)(void *arg), void *arg,
	struct err *err)
{
	static const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP,
		SIGSYS };
	sigset_t blocked;
	sigset_t before;
	int error;

	thread->name = name;
	thread->run = run_it;
	thread->arg = arg;
	(void)sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
		(void)sigdelset(&blocked, own_faults[i]);
	/* The new thread inherits the mask, so that no signal can reach it before it has set its own. */
	(void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(&thread->id, NULL, run, thread);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return err_set(err, FAULT_INTERNAL, "cannot start the %s thread: %s", name,
			strerror(error));
	thread->started = true;
	return 0;
}

void thread_request_stop(struct thread *thread)
{
	atomic_store(&thread->stop, true);
	wake_poke(&thread->wake);
}

bool thread_is_stopping(const struct thread *thread)
{
	return atomic_load(&thread->stop);
}

void thread_wake(struct thread *thread)
{
	wake_poke(&thread->wake);
}

bool thread_wait(struct thread *thread, int64_t timeout_ms)
{
	int64_t until_ms = clock_now_ms() + timeout_ms;
	int64_t left_ms = timeout_ms;

	while (thread->started && !atomic_load(&thread->ended) && left_ms > 0) {
		(void)wake_wait(&thread->end, left_ms);
		left_ms = until_ms - clock_now_ms();
	}
	return !thread->started || atomic_load(&thread->ended);
}

void thread_join(struct thread *thread)
{
	if (thread->started)
		(void)pthread_join(thread->id, NULL);
	thread->started = false;
}

void thread_pause(struct thread *thread, int64_t timeout_ms)
{
	if (timeout_ms > 0 && !thread_is_stopping(thread))
		(void)wake_wait(&thread->wake, timeout_ms);
}

void thread_loop(struct thread *thread, int64_t (*round)(void *arg), void *arg)
{
	while (!thread_is_stopping(thread))
		thread_pause(thread, round(arg));
}
