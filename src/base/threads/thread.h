/*
 * A thread of the program: a start with a name, a request to stop, a pause that the request ends, and a wait for
 * the end that has a limit. The limit is needed because a call of a library may hang, and its thread with it (G9).
 *
 * A thread runs with every signal blocked but those of its own faults. Signals belong to the signal thread, and a
 * write to a connection that the peer has closed must not raise SIGPIPE.
 *
 * The owner calls init, start, wait, join and fini. Any thread may call thread_request_stop(), thread_wake() and
 * thread_is_stopping(). Only the thread itself calls thread_pause() and thread_loop().
 */
#ifndef BASE_THREADS_THREAD_H
#define BASE_THREADS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/threads/progress.h"
#include "base/threads/wake.h"

struct thread {
	pthread_t id;
	const char *name; /* at most 15 bytes: the limit of pthread_setname_np() */
	void (*run)(void *arg);
	void *arg;
	bool started;
	atomic_bool stop;
	atomic_bool ended;
	struct wake wake; /* ends a pause; an event loop may watch its descriptor */
	struct wake end;  /* readable once the thread has ended */
	bool watched;
	struct progress progress; /* of a watched thread */
};

#define THREAD_INIT                                                                                \
	{                                                                                          \
		.wake = WAKE_INIT, .end = WAKE_INIT                                                \
	}

/* Opens two descriptors. On a fault thread_fini() is still allowed. */
int thread_init(struct thread *thread, struct err *err);
/* The thread has not been started, or is joined. */
void thread_fini(struct thread *thread);

/* Runs `run(arg)` in the thread. `name` must be a constant. */
int thread_start(struct thread *thread, const char *name, void (*run)(void *arg), void *arg,
	struct err *err);
void thread_request_stop(struct thread *thread);
bool thread_is_stopping(const struct thread *thread);
void thread_wake(struct thread *thread);
/* Waits at most timeout_ms for the end. True: it has ended, or never started. */
bool thread_wait(struct thread *thread, int64_t timeout_ms);
/* Waits for the end without a limit. Does nothing when the thread was not started. */
void thread_join(struct thread *thread);

/* progress_stalled() looks at the thread. Call it before thread_start(). */
void thread_watch(struct thread *thread);

/* Sleeps until timeout_ms have passed, thread_wake() or a request to stop. Returns at once when a stop was requested.
 */
void thread_pause(struct thread *thread, int64_t timeout_ms);
/* Calls `round(arg)` until a stop is requested. Pauses after each for the milliseconds that it returned. */
void thread_loop(struct thread *thread, int64_t (*round)(void *arg), void *arg);

#endif
