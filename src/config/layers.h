/*
 * The four layers of a configuration, put on top of each other: defaults, file, environment, --set.
 * Blocks while the file is read; one thread a call.
 */
#ifndef CONFIG_LAYERS_H
#define CONFIG_LAYERS_H

#include "config/entries.h"
#include "config/load.h"

/* Fills `entries`, and `warnings` with what was passed over. Errors as config_load(). */
int layers_read(struct entries *entries, const struct config_sources *sources,
	struct strings *warnings, struct err *err);

#endif
