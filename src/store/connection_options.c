/*
 * Implements connection_options.h.
 */
#include "store/connection_options.h"

#include <stdio.h>

#define STATEMENT_TIMEOUT_MS 30000

void connection_options(
	const struct config *config, int32_t instance, char name[32], struct db_options *out)
{
	(void)snprintf(name, 32, "inboxd/%d", instance);
	*out = (struct db_options){
		.postgres = &config->postgres,
		.schema = config->inbox.schema,
		.application = name,
		.lock_timeout_ms = config->worker.lease / 3,
		.idle_timeout_ms = config->worker.lease / 2,
		.statement_timeout_ms = STATEMENT_TIMEOUT_MS,
		.prepare = config->prepare,
	};
}
