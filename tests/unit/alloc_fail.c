/*
 * The wrappers behind alloc_fail.h: each counts one down and fails when the count reaches zero.
 * realloc to size 0 is not counted: it frees.
 */
#include "alloc_fail.h"

#include <errno.h>
#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

/* Allocations left until the failing one; 0 or below = none fails. */
static atomic_long left;
static atomic_bool failed;

void alloc_fail_at(size_t n)
{
	atomic_store(&failed, false);
	atomic_store(&left, (long)n);
}

bool alloc_fail_never(void)
{
	atomic_store(&left, 0);
	return atomic_exchange(&failed, false);
}

static bool fails_now(void)
{
	if (atomic_load(&left) <= 0 || atomic_fetch_sub(&left, 1) != 1)
		return false;
	atomic_store(&failed, true);
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return size > 0 && fails_now() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
	return fails_now() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails_now() ? NULL : __real_strndup(text, length);
}
