/*
 * Finds threads that hang. A thread on which others rely is watched: before each wait it says how long it may be silent.
 * The functions that wait, in this folder, for the database and for Kafka, do this. If the thread is silent for longer, it
 * hangs in a call, and another thread can find that out.
 */
#ifndef BASE_THREADS_PROGRESS_H
#define BASE_THREADS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* For calls that resolve names, and for those that wait for a thread that does. The resolver has no limit of its own: with
 * three servers that do not answer, glibc needs 56 s for a name, and libpq resolves all hosts of its list in one call. An outage
 * of DNS is no reason to end the process. */
#define PROGRESS_RESOLVE_MS 300000

/* Of one watched thread. */
struct progress {
	const char *thread;
	const atomic_bool *stop; /* the thread was asked to end; NULL = never */
	_Atomic int64_t due_ms;  /* clock_now_ms(): until then it may be silent */
	LIST_ENTRY(progress) link;
};

/* The calling thread is watched until progress_leave(). Keeps everything. */
void progress_enter(struct progress *progress, const char *thread, const atomic_bool *stop);
void progress_leave(struct progress *progress);
/* The calling thread goes on, and may be silent for so long from now. Does nothing in a thread that is not watched. */
void progress_note(int64_t silent_ms);
/* The name of a thread that was not asked to end and is silent for late_ms longer than it may be; NULL = there is none.
 * Silence before `since_ms` does not count. Any thread; never waits. */
const char *progress_stalled(int64_t since_ms, int64_t late_ms);

#endif
