/*
 * A wake-up between threads: an eventfd that becomes readable when it is poked. Several pokes cause one wake-up. Any
 * thread may poke; one thread waits.
 */
#ifndef BASE_THREADS_WAKE_H
#define BASE_THREADS_WAKE_H

#include <stdint.h>

#include "base/err.h"

struct wake {
	int fd; /* readable = poked; -1 when not open */
};

#define WAKE_INIT                                                                                  \
	{                                                                                          \
		.fd = -1                                                                           \
	}

int wake_init(struct wake *wake, struct err *err);
void wake_fini(struct wake *wake);
/* Async-signal-safe. */
void wake_poke(struct wake *wake);
/* Discards earlier pokes. */
void wake_clear(struct wake *wake);
/* Sleeps until it is poked, for timeout_ms at most, and discards the pokes. Returns 1 if it was poked, else 0. */
int wake_wait(struct wake *wake, int64_t timeout_ms);

#endif
