/*
 * Clean-up by scope. A local variable that owns something has CLEANUP(fn) and starts as NULL. To pass the ownership
 * on, assign the pointer and set the variable to NULL. `fn` gets the address of the variable. The attribute has no
 * other use.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdlib.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Defines `static inline void NAMEp(TYPE *p)`, which is the form of a destructor for the attribute. */
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
