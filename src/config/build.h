/* From texts to a struct config and back to nothing. Pure; one thread. */
#ifndef CONFIG_BUILD_H
#define CONFIG_BUILD_H

#include "base/err.h"
#include "config/config.h"
#include "config/entries.h"

/* Takes `entries` (resolved), also when it fails. FAULT_CONFIG names place and key; FAULT_MEMORY. */
int build_config(struct config **out, struct entries *entries, struct err *err);

#endif
