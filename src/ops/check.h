/*
 * `inboxd check`: checks the configuration and tries everything that it names. Main thread; blocks.
 */
#ifndef OPS_CHECK_H
#define OPS_CHECK_H

#include <stdbool.h>

#include "config/config.h"

/*
 * Prints every effective value and its origin with secrets masked, then one line per check, on
 * stdout; or everything as one JSON object. All checks run even if one fails. Returns 0 or the
 * fault of the most important failed check, which is already printed, so that `err` has no text:
 * FAULT_DATABASE when PostgreSQL cannot be reached, FAULT_KAFKA when Kafka cannot, FAULT_CHECK for
 * anything else.
 */
int check_run(const struct config *config, bool json, struct err *err);

#endif
