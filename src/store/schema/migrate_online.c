/*
 * Implements migrate_online.h. CREATE INDEX CONCURRENTLY that fails, or whose client dies, can leave
 * an invalid index, which the server keeps up to date and never uses. It is dropped and built again.
 *
 * The build waits for every transaction that began before it. Therefore an inboxd that waits for this
 * migration must not wait within a statement, and the transaction with the lock of migrations must
 * have no snapshot (migrate.c).
 */
#include "store/schema/migrate_online.h"

#include <stdio.h>

#include "base/buf.h"
#include "queries.h"

enum index_state { INDEX_MISSING, INDEX_BROKEN, INDEX_THERE };

static int read_index_state(
	struct db *db, const char *index, enum index_state *state, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, db_schema(db));
	params_text(&params, index);
	r = db_step(db, QUERY_INDEX_STATE, &params, &rows, err);
	if (r == 0 && rows_count(rows) == 0)
		*state = INDEX_MISSING;
	else if (r == 0)
		*state = rows_bool(rows, 0, 0) ? INDEX_THERE : INDEX_BROKEN;
	return r;
}

/* The server process of a client that was killed continues to build. It holds this lock on the table
 * until the index is valid or the build has failed. The lock does not conflict with reads and writes. */
static int wait_for_builder(struct db *db, const char *table, struct err *err)
{
	CLEANUP(buf_fini) struct buf sql = BUF_INIT;
	int r;

	buf_addf(&sql, "LOCK TABLE inbox.%s IN SHARE UPDATE EXCLUSIVE MODE", table);
	r = buf_ok(&sql) ? db_script(db, buf_str(&sql), err) : err_memory(err);
	return r != 0 ? err_prefix(err, "table %s", table) : 0;
}

static int commit_or_roll_back(struct db *db, int r, struct err *err)
{
	if (r == 0)
		r = db_commit(db, err);
	else
		db_rollback(db);
	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

/* The state of the index when no process builds it. */
static int look_behind_builders(
	struct db *db, const struct migration_step *step, enum index_state *state, struct err *err)
{
	int r = db_begin(db, err);

	if (r == 0)
		r = read_index_state(db, step->index, state, err);
	if (r == 0 && *state == INDEX_BROKEN) {
		r = wait_for_builder(db, step->table, err);
		if (r == 0)
			r = read_index_state(db, step->index, state, err);
	}
	return commit_or_roll_back(db, r, err);
}

static int drop_broken(struct db *db, struct migrate_watcher *watcher,
	struct migrate_statement statement, struct err *err)
{
	CLEANUP(buf_fini) struct buf sql = BUF_INIT;

	buf_addf(&sql, "DROP INDEX CONCURRENTLY IF EXISTS inbox.%s", statement.index);
	if (!buf_ok(&sql))
		return err_memory(err);
	statement.sql = buf_str(&sql);
	return migrate_watcher_run(watcher, db, &statement, err);
}

static int create_index(struct db *db, struct migrate_watcher *watcher,
	const struct migration_step *step, struct migrate_statement statement, struct err *err)
{
	enum index_state state = INDEX_MISSING;
	int r = look_behind_builders(db, step, &state, err);

	while (r == 0 && state != INDEX_THERE) {
		if (state == INDEX_BROKEN)
			r = drop_broken(db, watcher, statement, err);
		if (r == 0)
			r = migrate_watcher_run(watcher, db, &statement, err);
		if (r == 0)
			r = look_behind_builders(db, step, &state, err);
	}
	return r;
}

/* Lifts the time limits that this user or database sets for its sessions, or restores them: a pooler
 * may give the session to other clients later. */
static int change_settings(struct db *db, const struct rows *rows, bool lift, struct err *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		char script[128];

		(void)snprintf(script, sizeof(script), "SET %s TO %s", rows_text(rows, i, 0),
			lift ? rows_text(rows, i, 1) : "DEFAULT");
		r = db_script(db, script, err);
	}
	return r;
}

int migrate_online_run(struct db *db, struct migrate_watcher *watcher,
	const struct migration *migration, struct err *err)
{
	CLEANUP(rows_freep) struct rows *settings = NULL;
	int r = db_open(db, err);

	if (r == 0)
		r = db_run(db, QUERY_MIGRATION_SETTINGS, NULL, &settings, err);
	if (r == 0)
		r = change_settings(db, settings, true, err);
	for (const struct migration_step *step = migration->steps; r == 0 && step->sql != NULL;
		step++) {
		struct migrate_statement statement = { migration->name, step->index, step->sql };

		r = step->table != NULL ? create_index(db, watcher, step, statement, err)
					: migrate_watcher_run(watcher, db, &statement, err);
	}
	if (settings != NULL && db_is_open(db))
		(void)change_settings(db, settings, false, NULL);
	return r;
}
