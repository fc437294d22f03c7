/* Simulates a host that hides its boot id; loaded before a program (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef FILE *opener(const char *path, const char *mode);

static FILE *open_but(const char *path, const char *mode, const char *name)
{
	opener *next = (opener *)dlsym(RTLD_NEXT, name);

	if (strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
		return next(path, mode);
	errno = ENOENT;
	return NULL;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return open_but(path, mode, "fopen");
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return open_but(path, mode, "fopen64");
}
