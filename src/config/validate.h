/*
 * Rules between keys: what one asks of another, and what must be there at all. Pure; one thread.
 */
#ifndef CONFIG_VALIDATE_H
#define CONFIG_VALIDATE_H

#include "base/err.h"
#include "config/config.h"

/* A default gives way to what was written for the key it must fit to: with max_claimed: 50 alone,
 * claim_batch is 50. The entries then say so. FAULT_MEMORY only. */
int config_fit_defaults(struct config *config, struct err *err);

/* FAULT_CONFIG names the keys, their places and what to do. Adds to config->warnings what is odd
 * but possible. `without_kafka`: what only Kafka needs may be missing. */
int config_validate(struct config *config, bool without_kafka, struct err *err);

#endif
