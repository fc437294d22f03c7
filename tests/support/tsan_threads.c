/*
 * C11 threads on top of POSIX threads, for builds with ThreadSanitizer alone. librdkafka uses the C11
 * functions, which clang's runtime does not see: to it there are threads nobody started and locks
 * nobody took. What stands in the program is found before the C library's, so librdkafka's calls come
 * here and go on to the POSIX functions, which the runtime knows. glibc's types are the same inside.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "a mutex is a POSIX mutex");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "a condition is a POSIX condition");
_Static_assert(sizeof(thrd_t) == sizeof(pthread_t), "a thread is a POSIX thread");
_Static_assert(sizeof(once_flag) == sizeof(pthread_once_t), "a flag is a POSIX flag");

struct start {
	thrd_start_t function;
	void *arg;
};

static int result_of(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

static void *run(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	return (void *)(intptr_t)start.function(start.arg);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
	struct start *start = malloc(sizeof(*start));
	int error;

	if (start == NULL)
		return thrd_nomem;
	*start = (struct start){ function, arg };
	error = pthread_create(thread, NULL, run, start);
	if (error != 0)
		free(start);
	return result_of(error);
}

int thrd_join(thrd_t thread, int *result)
{
	void *value = NULL;
	int error = pthread_join(thread, &value);

	if (result != NULL)
		*result = (int)(intptr_t)value;
	return result_of(error);
}

int thrd_detach(thrd_t thread)
{
	return result_of(pthread_detach(thread));
}

void call_once(once_flag *flag, void (*function)(void))
{
	(void)pthread_once((pthread_once_t *)flag, function);
}

/* Of clang's runtime. */
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

/* Where librdkafka hands a lock it has just made to a thread that runs already, it does so in a way the
 * runtime does not see: making it is not taken for a write. Taking it is looked at as ever. */
int mtx_init(mtx_t *mutex, int type)
{
	pthread_mutexattr_t attributes;
	int error;

	(void)pthread_mutexattr_init(&attributes);
	(void)pthread_mutexattr_settype(&attributes,
		(type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	error = pthread_mutex_init((pthread_mutex_t *)mutex, &attributes);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	(void)pthread_mutexattr_destroy(&attributes);
	return result_of(error);
}

void mtx_destroy(mtx_t *mutex)
{
	(void)pthread_mutex_destroy((pthread_mutex_t *)mutex);
}

int mtx_lock(mtx_t *mutex)
{
	return result_of(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

int mtx_trylock(mtx_t *mutex)
{
	return result_of(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict until)
{
	return result_of(pthread_mutex_timedlock((pthread_mutex_t *)mutex, until));
}

int mtx_unlock(mtx_t *mutex)
{
	return result_of(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

int cnd_init(cnd_t *condition)
{
	return result_of(pthread_cond_init((pthread_cond_t *)condition, NULL));
}

void cnd_destroy(cnd_t *condition)
{
	(void)pthread_cond_destroy((pthread_cond_t *)condition);
}

int cnd_signal(cnd_t *condition)
{
	return result_of(pthread_cond_signal((pthread_cond_t *)condition));
}

int cnd_broadcast(cnd_t *condition)
{
	return result_of(pthread_cond_broadcast((pthread_cond_t *)condition));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
	return result_of(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(
	cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until)
{
	return result_of(pthread_cond_timedwait(
		(pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until));
}
