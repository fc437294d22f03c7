/*
 * Implements migrate.h. Each step is one transaction that begins with the lock of migrations, looks
 * at the schema, and applies the next missing migration. Statements that must run outside of a
 * transaction use a second connection while the first one holds the lock.
 */
#include "store/schema/migrate.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "migrations.h"
#include "queries.h"
#include "store/pg/statements.h"
#include "store/schema/migrate_online.h"
#include "store/schema/roles.h"

/* Lifts settings of this user or database that would interrupt a migration. This is text and not a
 * query: the simple protocol closes the portal of the previous statement, and with it the last
 * snapshot of this transaction. CREATE INDEX CONCURRENTLY on the other connection would wait for
 * that snapshot. */
#define UNBOUNDED                                                                                  \
	"SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN"                        \
	" ('transaction_timeout', 'idle_in_transaction_session_timeout');"                         \
	" SET LOCAL enable_seqscan = on"

/* A statement that waits for a lock blocks every later statement on the table. So it waits for a
 * short time, and pauses for a longer one before the next try. */
#define LOCK_MS       1000
#define BUSY_MS       2000
#define BUSY_MOST_MS  30000

/* While another inboxd migrates: how often to look whether it is done, and how often to report. */
#define BEHIND_MS     300
#define BEHIND_LOG_MS 5000

int migrate_latest(void)
{
	return migrations[migration_count - 1].version;
}

static int compare(int found, int oldest_sidecar)
{
	if (found == 0)
		return SCHEMA_MISSING;
	if (found < migrate_latest())
		return SCHEMA_OLDER;
	if (found == migrate_latest())
		return 0;
	return oldest_sidecar <= migrate_latest() ? SCHEMA_AHEAD : SCHEMA_NEWER;
}

int migrate_refuse_prerelease(const char *schema, struct err *err)
{
	(void)err_set(err, FAULT_DATABASE,
		"schema \"%s\" was made by a pre-release of inboxd and cannot be migrated", schema);
	(void)snprintf(err->state, sizeof(err->state), "3F000"); /* no retry helps */
	return err_advise(err,
		"let that version finish what waits there; then drop the schema, or choose another "
		"inbox.schema, and run `inboxd migrate`");
}

int migrate_check(struct db *db, int *found, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct err own = ERR_INIT;
	struct err *words = err == NULL ? &own : err;
	int r = db_run(db, QUERY_SCHEMA_VERSION, NULL, &rows, words);

	*found = 0;
	if (r != 0 && (strcmp(words->state, "42P01") == 0 || strcmp(words->state, "3F000") == 0))
		return SCHEMA_MISSING;
	if (r != 0 && strcmp(words->state, "42703") == 0)
		return SCHEMA_PRERELEASE;
	if (r != 0 && strcmp(words->state, "42501") == 0 && err_advice(words)[0] == '\0') {
		(void)err_prefix(
			words, "this PostgreSQL user may not read schema \"%s\"", db_schema(db));
		return err_advise(words,
			"grant it the role inboxd_sidecar, or the one with the prefix of this "
			"schema, which `inboxd migrate --roles` prints");
	}
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return SCHEMA_MISSING;
	*found = (int)rows_int(rows, 0, 0);
	return compare(*found, (int)rows_int(rows, 0, 1));
}

bool migrate_error_is_final(const struct err *err)
{
	switch (db_error_kind(err)) {
	case PG_ERROR_REFUSED:
	case PG_ERROR_DATA:
	case PG_ERROR_OTHER:
		return true;
	default:
		return err->fault != FAULT_DATABASE;
	}
}

/* A run: two connections, and the state of the schema as the last step found it. */
struct schema_run {
	struct db *db; /* holds the lock during a step; applies migrations that are a transaction */
	struct db *builder; /* for statements outside a transaction */
	struct migrate_watcher *watcher;
	bool schema_there;
	bool may_create_schema;
	bool may_create_in_it;
	bool versions_there;
	bool is_owner; /* of what is there */
	bool is_prerelease;
	bool functions_applied;
	int version;
	int oldest_sidecar;
	int applied;             /* migrations */
	const char *role_prefix; /* NULL: those that may use the schema already, or inboxd */
};

static void run_fini(struct schema_run *run)
{
	migrate_watcher_free(run->watcher);
	db_free(run->builder);
	db_free(run->db);
}

static int run_init(struct schema_run *run, const struct db_options *options,
	const struct migrate_watch *watch, struct err *err)
{
	struct db_options own = *options;
	int r;

	own.application = "inboxd/migrate";
	own.lock_timeout_ms = LOCK_MS;
	own.statement_timeout_ms = 0;
	/* an index is built outside of a transaction, for as long as it takes: no setting may stay in the session */
	own.prepare = PREPARE_NEVER;
	r = db_new(&run->db, &own, err);
	if (r == 0)
		r = db_new(&run->builder, &own, err);
	if (r == 0)
		r = migrate_watcher_new(&run->watcher, &own, watch, err);
	return r == 0 ? migrate_watcher_start(run->watcher, run->db, run->builder, err) : r;
}

/* Tries to get the lock in a new transaction. The transaction stays open only if the lock was free. */
static int try_lock(struct db *db, bool *free, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_begin(db, err);

	params_text(&params, db_schema(db));
	if (r == 0)
		r = db_step(db, QUERY_LOCK_SCHEMA, &params, &rows, err);
	*free = r == 0 && rows_bool(rows, 0, 0);
	if (!*free)
		db_rollback(db);
	return r;
}

/* Begins a transaction that holds the lock of migrations. It does not wait within a statement: CREATE
 * INDEX CONCURRENTLY of the inboxd that has the lock would wait for that statement. */
static int lock_schema(struct schema_run *run, struct err *err)
{
	int64_t since_ms = clock_now_ms();
	int64_t logged_ms = since_ms;
	bool free = false;
	int r = db_open(run->db, err);

	while (r == 0 && (r = try_lock(run->db, &free, err)) == 0 && !free) {
		int64_t now_ms = clock_now_ms();

		if (now_ms - logged_ms >= BEHIND_LOG_MS) {
			migrate_watcher_report(
				run->watcher, &(struct migrate_report){ .event = MIGRATE_BEHIND,
						      .elapsed_ms = now_ms - since_ms });
			logged_ms = now_ms;
		}
		if (!migrate_watcher_pause(run->watcher, BEHIND_MS))
			return MIGRATE_STOPPED;
	}
	return r;
}

static int read_schema_state(struct schema_run *run, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(rows_freep) struct rows *version = NULL;
	int r;

	params_text(&params, db_schema(run->db));
	r = db_step(run->db, QUERY_SCHEMA_STATE, &params, &rows, err);
	if (r != 0)
		return r;
	run->schema_there = rows_bool(rows, 0, 0);
	run->may_create_schema = rows_bool(rows, 0, 1);
	run->may_create_in_it = rows_bool(rows, 0, 2);
	run->versions_there = rows_bool(rows, 0, 3);
	run->is_owner = rows_bool(rows, 0, 4);
	run->is_prerelease = run->versions_there && !rows_bool(rows, 0, 5);
	run->version = 0;
	run->oldest_sidecar = 0;
	if (!run->versions_there || run->is_prerelease)
		return 0;
	r = db_step(run->db, QUERY_SCHEMA_VERSION, NULL, &version, err);
	if (r == 0 && rows_count(version) > 0) {
		run->version = (int)rows_int(version, 0, 0);
		run->oldest_sidecar = (int)rows_int(version, 0, 1);
	} else if (err != NULL && strcmp(err->state, "42501") == 0)
		(void)err_prefix(err, "this user may not read schema \"%s\"; migrate as its owner",
			db_schema(run->db));
	return r;
}

static int check_rights(const struct schema_run *run, struct err *err)
{
	const char *schema = db_schema(run->db);

	if (run->is_prerelease)
		return migrate_refuse_prerelease(schema, err);
	if (compare(run->version, run->oldest_sidecar) == SCHEMA_NEWER)
		return err_set(err, FAULT_DATABASE,
			"schema \"%s\" has version %d, newer than this inboxd knows (%d): upgrade "
			"inboxd",
			schema, run->version, migrate_latest());
	if (!run->schema_there && !run->may_create_schema)
		return err_set(err, FAULT_DATABASE,
			"schema \"%s\" does not exist and this user may not create it: run `CREATE "
			"SCHEMA "
			"%s AUTHORIZATION this_user` as the database's owner, or migrate as "
			"another user",
			schema, schema);
	if (run->schema_there && !run->may_create_in_it && run->version < migrate_latest())
		return err_set(err, FAULT_DATABASE,
			"this user may not create objects in schema \"%s\": migrate as the "
			"schema's owner, "
			"or grant CREATE and USAGE on it",
			schema);
	return 0;
}

static int create_schema(struct db *db, struct err *err)
{
	struct buf sql = BUF_INIT;
	int r;

	buf_add_str(&sql, "CREATE SCHEMA ");
	schema_quote(&sql, db_schema(db));
	r = buf_ok(&sql) ? db_script(db, buf_str(&sql), err) : err_memory(err);
	buf_fini(&sql);
	return r;
}

/* In the transaction of the lock, so that everything or nothing is applied. */
static int apply_at_once(struct schema_run *run, const struct migration *migration, struct err *err)
{
	const struct migrate_statement statement = { migration->name, NULL, migration->sql };
	int r = 0;

	if (!run->schema_there)
		r = create_schema(run->db, err);
	if (r == 0)
		run->schema_there = true;
	return r == 0 ? migrate_watcher_run(run->watcher, run->db, &statement, err) : r;
}

/* Not in the transaction of the lock: it would lock the tables until its end, and DROP INDEX
 * CONCURRENTLY waits for every transaction with a lock on the table. */
static int is_in_use(struct schema_run *run, bool *in_use, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_open(run->builder, err);

	if (r == 0)
		r = db_run(run->builder, QUERY_SCHEMA_IN_USE, NULL, &rows, err);

	*in_use = r == 0 && rows_bool(rows, 0, 0);
	return r;
}

/* Leaves the transaction open. */
static int apply(struct schema_run *run, const struct migration *migration, struct err *err)
{
	struct migrate_report report = { .event = MIGRATE_BEGINS, .migration = migration->name };
	bool in_use = false;
	char note[128];
	int r = 0;

	migrate_watcher_report(run->watcher, &report);
	if (migration->steps != NULL && run->versions_there)
		r = is_in_use(run, &in_use, err);
	if (r == 0)
		r = db_script(run->db, UNBOUNDED, err);
	if (r == 0)
		r = in_use ? migrate_online_run(run->builder, run->watcher, migration, err)
			   : apply_at_once(run, migration, err);
	if (r != 0)
		return err_prefix(err, "migration %s", migration->name);
	(void)snprintf(note, sizeof(note),
		"INSERT INTO inbox.inbox_schema_version (version, oldest_sidecar) VALUES (%d, %d)",
		migration->version, migration->oldest_sidecar);
	r = db_script(run->db, note, err);
	if (r == 0)
		run->version = migration->version;
	return r;
}

static int apply_functions(struct schema_run *run, struct err *err)
{
	const struct migrate_statement statement = { "functions", NULL, script_functions };
	int r = db_script(run->db, UNBOUNDED, err);

	if (r == 0)
		r = migrate_watcher_run(run->watcher, run->db, &statement, err);
	return r != 0 ? err_prefix(err, "functions") : 0;
}

static int commit(struct schema_run *run, struct err *err)
{
	return db_commit(run->db, err) == 0 ? 0 : FAULT_DATABASE;
}

/* Applies the next migration in its transaction. A new schema gets all of them in one transaction,
 * together with the functions, so that nobody sees it without its functions. */
static int apply_next(struct schema_run *run, struct err *err)
{
	struct migrate_report report = { .event = MIGRATE_APPLIED };
	int64_t since_ms = clock_now_ms();
	int version = run->version;
	int r;

	do
		r = apply(run, &migrations[run->version], err);
	while (r == 0 && !run->versions_there && run->version < migrate_latest());
	if (r == 0 && run->version == migrate_latest())
		r = apply_functions(run, err);
	if (r == 0)
		r = commit(run, err);
	if (r != 0)
		return r;
	run->functions_applied = run->version == migrate_latest();
	report.elapsed_ms = clock_now_ms() - since_ms;
	for (; version < run->version; version++, run->applied++) {
		report.migration = migrations[version].name;
		migrate_watcher_report(run->watcher, &report);
	}
	return 0;
}

/* Applies the functions again when no migration is missing. */
static int renew_functions(struct schema_run *run, struct err *err)
{
	int r = apply_functions(run, err);

	if (r == 0)
		r = commit(run, err);
	run->functions_applied = r == 0;
	return r;
}

/* Not when the schema is newer: its functions belong to a newer inboxd. Not as a user who does not own it. */
static bool may_renew_functions(const struct schema_run *run)
{
	return run->version == migrate_latest() && !run->functions_applied && run->is_owner &&
	       run->may_create_in_it;
}

/* Applies the next migration that is missing. */
enum { STEP_DONE = 2 };
static int run_step(struct schema_run *run, struct err *err)
{
	int r = lock_schema(run, err);

	if (r != 0)
		return r;
	r = read_schema_state(run, err);
	if (r == 0)
		r = check_rights(run, err);
	if (r == 0 && run->version < migrate_latest())
		r = apply_next(run, err);
	else if (r == 0 && may_renew_functions(run))
		r = renew_functions(run, err);
	else if (r == 0)
		r = STEP_DONE;
	if (r != 0)
		db_rollback(run->db);
	return r;
}

typedef int run_function(struct schema_run *run, struct err *err);

/* Calls `function`, and calls it again after a pause while it fails because of a lock or a deadlock. */
static int run_with_retries(struct schema_run *run, run_function *function, struct err *err)
{
	struct err own = ERR_INIT;
	struct err *words = err == NULL ? &own : err;
	int attempt = 0;
	int r;

	while ((r = function(run, words)) == FAULT_DATABASE &&
		db_error_kind(words) == PG_ERROR_BUSY) {
		int64_t pause_ms = backoff_bound_ms(BUSY_MS, BUSY_MOST_MS, attempt++);

		migrate_watcher_report(
			run->watcher, &(struct migrate_report){ .event = MIGRATE_BUSY,
					      .error = words->text,
					      .retry_in_ms = pause_ms });
		if (!migrate_watcher_pause(run->watcher, pause_ms))
			break;
	}
	return migrate_watcher_stopped(run->watcher) ? MIGRATE_STOPPED : r;
}

int migrate_run(const struct db_options *options, const struct migrate_watch *watch,
	struct migrate_result *result, struct err *err)
{
	CLEANUP(run_fini) struct schema_run run = { .db = NULL };
	int r = run_init(&run, options, watch, err);

	while (r == 0)
		r = run_with_retries(&run, run_step, err);
	*result = (struct migrate_result){ run.applied, run.version };
	return r == STEP_DONE ? 0 : r;
}

/* The script has the names of the roles with the prefix inboxd. */
static int grant_to(struct schema_run *run, const char *prefix, struct err *err)
{
	static const char usual[] = ROLES_PREFIX "_";
	CLEANUP(buf_fini) struct buf script = BUF_INIT;
	struct migrate_statement statement = { "roles", NULL, NULL };
	const char *from = script_roles;

	for (const char *at = strstr(from, usual); at != NULL; at = strstr(from, usual)) {
		buf_add(&script, from, (size_t)(at - from));
		buf_addf(&script, "%s_", prefix);
		from = at + sizeof(usual) - 1;
	}
	buf_add_str(&script, from);
	statement.sql = buf_str(&script);
	return buf_ok(&script) ? migrate_watcher_run(run->watcher, run->db, &statement, err)
			       : err_memory(err);
}

static int grant_to_all(struct schema_run *run, struct err *err)
{
	CLEANUP(rows_freep) struct rows *used = NULL;
	int r;

	if (run->role_prefix != NULL)
		return grant_to(run, run->role_prefix, err);
	r = roles_prefixes(run->db, &used, err);
	if (r == 0 && rows_count(used) == 0)
		return grant_to(run, ROLES_PREFIX, err);
	for (int i = 0; r == 0 && i < rows_count(used); i++)
		r = grant_to(run, rows_text(used, i, 0), err);
	return r;
}

static int grant_roles(struct schema_run *run, struct err *err)
{
	int r = lock_schema(run, err);

	if (r != 0)
		return r;
	r = db_script(run->db, UNBOUNDED, err);
	if (r == 0)
		r = grant_to_all(run, err);
	if (r == 0)
		return db_commit(run->db, err) == 0 ? 0 : FAULT_DATABASE;
	db_rollback(run->db);
	if (strcmp(err->state, "42501") != 0)
		return err_prefix(err, "roles");
	(void)err_prefix(err, "roles: this user needs CREATEROLE, and to own the schema");
	return err_advise(err, "a superuser can grant it with ALTER ROLE … CREATEROLE");
}

int migrate_roles(const struct db_options *options, const struct migrate_watch *watch,
	const char *prefix, struct err *err)
{
	CLEANUP(run_fini) struct schema_run run = { .db = NULL };
	int r = run_init(&run, options, watch, err);

	run.role_prefix = prefix;
	return r == 0 ? run_with_retries(&run, grant_roles, err) : r;
}
