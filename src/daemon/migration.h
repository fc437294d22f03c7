/*
 * Runs migrations for `run --migrate` and `migrate`, and logs their progress. Blocks.
 */
#ifndef DAEMON_MIGRATION_H
#define DAEMON_MIGRATION_H

#include "config/config.h"
#include "store/schema/migrate.h"

/* Called several times a second, also from another thread; false = stop. */
struct migration_stop {
	bool (*goes_on)(void *arg);
	void *arg;
};

/* migrate_run() and migrate_roles() with the configured database. */
int migration_run(const struct config *config, const struct migration_stop *stop,
	struct migrate_result *result, struct err *err);
int migration_grant(const struct config *config, const struct migration_stop *stop,
	const char *prefix, struct err *err);

#endif
