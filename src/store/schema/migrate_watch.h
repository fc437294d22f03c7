/*
 * The thread beside a migration: a statement that runs for minutes must neither look dead nor keep the program
 * from ending. It asks every WATCH_MS whether to go on, and tells every few seconds how far the statement is,
 * over a connection of its own, which is opened when it is needed first.
 */
#ifndef STORE_SCHEMA_MIGRATE_WATCH_H
#define STORE_SCHEMA_MIGRATE_WATCH_H

#include "store/schema/migrate.h"

struct migrate_watcher;

struct migrate_statement {
	const char *migration;
	const char *index; /* that it makes or drops; NULL = a whole migration */
	const char *sql;
};

/* Keeps `options` and `watch` (which may be NULL). Starts nothing yet. */
int migrate_watcher_new(struct migrate_watcher **out, const struct db_options *options,
	const struct migrate_watch *watch, struct err *err);
/* Starts the thread. The waits of both connections end when it is time to stop; they outlive the watcher. */
int migrate_watcher_start(
	struct migrate_watcher *watcher, struct db *first, struct db *second, struct err *err);
/* Joins the thread: at most some seconds. */
void migrate_watcher_free(struct migrate_watcher *watcher);
DEFINE_CLEANUP(struct migrate_watcher *, migrate_watcher_free);

/* db_script() that may take as long as it likes, watched. */
int migrate_watcher_run(struct migrate_watcher *watcher, struct db *db,
	const struct migrate_statement *statement, struct err *err);
void migrate_watcher_report(struct migrate_watcher *watcher, const struct migrate_report *what);
/* Sleeps. False: asked to stop, by then or before. */
bool migrate_watcher_pause(struct migrate_watcher *watcher, int64_t ms);
bool migrate_watcher_stopped(struct migrate_watcher *watcher);

#endif
