/*
 * Makes one chosen allocation fail, so that tests can walk every out-of-memory path of a module:
 *
 *	for (size_t n = 1;; n++) {
 *		alloc_fail_at(n);
 *		r = thing_new(&thing, &err);
 *		if (!alloc_fail_never())
 *			break;          // fewer than n allocations: every path has been walked
 *		assert_int_equal(r, FAULT_MEMORY);
 *	}
 *
 * Link the test with alloc_fail.c and with
 *	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup
 * Only calls from objects and static libraries of this link are seen; what a shared library
 * allocates for itself is not counted and never fails. Any thread may allocate; one thread steers.
 */
#ifndef TESTS_UNIT_ALLOC_FAIL_H
#define TESTS_UNIT_ALLOC_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now (1 = the next) fails with ENOMEM; those before and after succeed. */
void alloc_fail_at(size_t n);

/* No allocation fails any more. True when one has failed since alloc_fail_at(). */
bool alloc_fail_never(void);

#endif
