/*
 * What inboxd must know of the names it passes on to librdkafka and libpq without knowing them all:
 * which it decides itself, which are secret, which are taken over at SIGHUP. Constant; any thread.
 */
#ifndef CONFIG_PASSED_H
#define CONFIG_PASSED_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/options.h"

/* Why this name cannot be configured, as a sentence that begins with it; NULL when it can. */
const char *passed_refusal(const char *section, const char *name);

/* True when the value of a key of that name, or a text like this one, must not be shown. */
bool passed_is_secret(const char *name);
bool passed_holds_secret(const char *text);

/* True when a value from a file is read again for each new connection, so that its change needs no restart. */
bool passed_is_read_again(const char *section, const char *name);

/* The name for `suffix` of a variable INBOXD_<SECTION>_<suffix>: one of `known` (ended by NULL),
 * or, when `known` is NULL, as it is usual in that library, written into `scratch`. NULL when none
 * fits. */
const char *passed_from_variable(const struct section *section, const char *const *known,
	const char *suffix, struct buf *scratch);

#endif
