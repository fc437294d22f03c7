/* `inboxd check`: is this configuration right, and is everything there that it names? */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>

#include "config/config.h"

/* Prints every effective value and its origin (secrets masked), then one line a test, on stdout; or all of it as one
 * JSON object. All tests are made even if one fails. 0, or the fault of the worst, which is printed and has no words in
 * `err`: FAULT_DATABASE when PostgreSQL cannot be reached, FAULT_KAFKA when Kafka cannot, FAULT_CHECK for anything
 * else. */
int check_run(const struct config *config, bool json, struct err *err);

#endif
