/* The connection settings every thread of a sidecar uses. */
#ifndef STORE_SIDECAR_H
#define STORE_SIDECAR_H

#include "store/db.h"

/* Options for a session named inboxd/<instance> (rule R5), with timeouts below the lease. Borrows from
 * `config` and from `name`, which must live until db_new(). */
void sidecar_db_options(
	const struct config *config, int32_t instance, char name[32], struct db_options *out);

#endif
