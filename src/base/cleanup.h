/*
 * Clean-up by scope: a local that owns something carries CLEANUP(fn) and starts as NULL; giving it
 * away is assign-and-NULL. `fn` takes the address of the variable. No other use of the attribute.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdlib.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Defines `static inline void NAMEp(TYPE *p)`, the form the attribute wants of a destructor. */
#define DEFINE_CLEANUP(type, name)                                                                 \
	static inline void name##p(type *p)                                                        \
	{                                                                                          \
		name(*p);                                                                          \
	}                                                                                          \
	_Static_assert(sizeof(type) == sizeof(void *), "a pointer")

static inline void freep(void *p)
{
	free(*(void **)p);
}

#endif
