/*
 * The part of migrate.h that creates and drops indexes while others use their table.
 */
#ifndef STORE_SCHEMA_MIGRATE_ONLINE_H
#define STORE_SCHEMA_MIGRATE_ONLINE_H

#include "migrations.h"
#include "store/schema/migrate_watch.h"

/* Runs the steps of a migration outside of a transaction; each step can be run again. Opens `db`,
 * which must have no statement_timeout. Blocks for as long as the oldest transaction of the
 * database. A fault with db_error_is_lock(): the server process of an earlier run still builds one of
 * the indexes. */
int migrate_online_run(struct db *db, struct migrate_watcher *watcher,
	const struct migration *migration, struct err *err);

#endif
