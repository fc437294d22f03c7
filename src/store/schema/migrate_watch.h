/*
 * A thread that watches a migration, so that a statement that runs for minutes can be stopped and
 * does not look dead. Every WATCH_MS it asks whether to continue. Every few seconds it reports the
 * progress of the statement, over a connection of its own, which it opens when it needs it first.
 */
#ifndef STORE_SCHEMA_MIGRATE_WATCH_H
#define STORE_SCHEMA_MIGRATE_WATCH_H

#include "store/schema/migrate.h"

struct migrate_watcher;

struct migrate_statement {
	const char *migration;
	const char *index; /* the one it creates or drops; NULL = a whole migration */
	const char *sql;
};

/* Keeps `options` and `watch` (which may be NULL). Starts nothing yet. */
int migrate_watcher_new(struct migrate_watcher **out, const struct db_options *options,
	const struct migrate_watch *watch, struct err *err);
/* Starts the thread. A stop interrupts the waits of both connections, which must outlive the watcher. */
int migrate_watcher_start(
	struct migrate_watcher *watcher, struct db *first, struct db *second, struct err *err);
/* Stops and joins the thread. This takes a few seconds at most. */
void migrate_watcher_free(struct migrate_watcher *watcher);
DEFINE_CLEANUP(struct migrate_watcher *, migrate_watcher_free);

/* db_script() without a time limit, watched. */
int migrate_watcher_run(struct migrate_watcher *watcher, struct db *db,
	const struct migrate_statement *statement, struct err *err);
void migrate_watcher_report(struct migrate_watcher *watcher, const struct migrate_report *what);
/* Sleeps. False: a stop was requested, before or meanwhile. */
bool migrate_watcher_pause(struct migrate_watcher *watcher, int64_t ms);
bool migrate_watcher_stopped(struct migrate_watcher *watcher);

#endif
