/* The part of migrate.h that makes and drops indexes while others use their table. */
#ifndef STORE_SCHEMA_MIGRATE_ONLINE_H
#define STORE_SCHEMA_MIGRATE_ONLINE_H

#include "migrations.h"
#include "store/schema/migrate_watch.h"

/* Runs the steps of a migration that has some, outside a transaction; each can be run again. `db` has no limit
 * for statements; connects it. Blocks for as long as the oldest transaction of the database. A fault with
 * db_error_is_lock(): an earlier run's server process still builds one of the indexes. */
int migrate_online_run(struct db *db, struct migrate_watcher *watcher,
	const struct migration *migration, struct err *err);

#endif
