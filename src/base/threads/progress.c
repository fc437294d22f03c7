/*
 * Implements progress.h. The list is global, unlike nearly everything else, because a wait does not know the thread in
 * which it runs.
 */
#include "base/threads/progress.h"

#include <pthread.h>
#include <stddef.h>

#include "base/time/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, progress) watched = LIST_HEAD_INITIALIZER(watched);
static _Thread_local struct progress *current; /* NULL: not watched */

void progress_enter(struct progress *progress, const char *thread, const atomic_bool *stop)
{
	progress->thread = thread;
	progress->stop = stop;
	current = progress;
	progress_note(0);
	(void)pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&watched, progress, link);
	(void)pthread_mutex_unlock(&lock);
}

void progress_leave(struct progress *progress)
{
	(void)pthread_mutex_lock(&lock);
	LIST_REMOVE(progress, link);
	(void)pthread_mutex_unlock(&lock);
	current = NULL;
}

void progress_note(int64_t silent_ms)
{
	if (current != NULL)
		atomic_store_explicit(
			&current->due_ms, clock_now_ms() + silent_ms, memory_order_relaxed);
}

const char *progress_stalled(int64_t since_ms, int64_t late_ms)
{
	const int64_t now_ms = clock_now_ms();
	const struct progress *progress;
	const char *thread = NULL;

	(void)pthread_mutex_lock(&lock);
	LIST_FOREACH (progress, &watched, link) {
		int64_t due_ms = atomic_load(&progress->due_ms);

		if (due_ms < since_ms)
			due_ms = since_ms;
		if (now_ms - due_ms > late_ms &&
			(progress->stop == NULL || !atomic_load(progress->stop)))
			thread = progress->thread;
	}
	(void)pthread_mutex_unlock(&lock);
	return thread;
}
