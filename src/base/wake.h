/*
 * A wake-up between threads: an eventfd that becomes readable when poked. Pokes add up to one
 * wake-up. Any thread may poke; one thread waits.
 */
#ifndef BASE_WAKE_H
#define BASE_WAKE_H

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
/* Takes the pokes back. */
void wake_clear(struct wake *wake);
/* Sleeps until poked or timeout_ms has passed; clears. Returns 1 when poked, 0 when not. */
int wake_wait(struct wake *wake, int64_t timeout_ms);

#endif
