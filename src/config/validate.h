/*
 * Rules between keys: values that must fit together, and keys that must be there. Pure; one thread.
 */
#ifndef CONFIG_VALIDATE_H
#define CONFIG_VALIDATE_H

#include "base/err.h"
#include "config/config.h"

/*
 * First lets defaults give way: with max_claimed: 50 alone, claim_batch is 50, and its entry says so. Then
 * checks every rule. Adds to config->warnings what is possible but odd. `without_kafka`: keys that only
 * Kafka needs may be missing. FAULT_CONFIG names the keys, their places and what to do; FAULT_MEMORY.
 */
int config_validate(struct config *config, bool without_kafka, struct err *err);

#endif
