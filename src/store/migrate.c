#include "store/migrate.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "migrations.h"
#include "queries.h"
#include "store/statements.h"

/* Where the versions are kept; made before the first migration, in its transaction. */
#define VERSION_TABLE                                                                              \
	"CREATE TABLE inbox.inbox_schema_version ("                                                \
	"    version    int PRIMARY KEY,"                                                          \
	"    applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"

/* Another migration may take long; waiting for it is bounded by statement_timeout alone. */
#define PATIENT_LOCKS                                                                              \
	"SELECT set_config('lock_timeout', '0', true), set_config('enable_seqscan', 'on', true)"

int migrate_latest(void)
{
	return migrations[MIGRATION_COUNT - 1].version;
}

static int compare(int found)
{
	if (found == 0)
		return SCHEMA_MISSING;
	if (found < migrate_latest())
		return SCHEMA_OLDER;
	return found > migrate_latest() ? SCHEMA_NEWER : 0;
}

static bool is_missing(const struct err *err)
{
	return strcmp(err->state, "42P01") == 0 || strcmp(err->state, "3F000") == 0;
}

int migrate_check(struct db *db, int *found, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct err own = ERR_INIT;
	struct err *words = err == NULL ? &own : err;
	int r = db_run(db, QUERY_SCHEMA_VERSION, NULL, &rows, words);

	*found = 0;
	if (r != 0 && is_missing(words))
		return SCHEMA_MISSING;
	if (r != 0 && strcmp(words->state, "42501") == 0) {
		(void)err_prefix(
			words, "this PostgreSQL user may not read schema \"%s\"", db_schema(db));
		return err_advise(words, "grant it the role inboxd_sidecar");
	}
	if (r != 0)
		return r;
	*found = (int)rows_int(rows, 0, 0);
	return compare(*found);
}

/* One transaction of a run. */
struct step {
	struct db *db;
	bool schema_there;
	bool may_create_schema;
	bool may_create_in_it;
	bool versions_there;
	int version;
};

static int lock_schema(struct db *db, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r;

	params_text(&params, db_schema(db));
	r = db_script(db, PATIENT_LOCKS, err);
	return r != 0 ? r : db_step(db, QUERY_LOCK_SCHEMA, &params, NULL, err);
}

static int look(struct step *step, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	CLEANUP(rows_freep) struct rows *version = NULL;
	int r;

	params_text(&params, db_schema(step->db));
	r = db_step(step->db, QUERY_SCHEMA_STATE, &params, &rows, err);
	if (r != 0)
		return r;
	step->schema_there = rows_bool(rows, 0, 0);
	step->may_create_schema = rows_bool(rows, 0, 1);
	step->may_create_in_it = rows_bool(rows, 0, 2);
	step->versions_there = rows_bool(rows, 0, 3);
	step->version = 0;
	if (!step->versions_there)
		return 0;
	r = db_step(step->db, QUERY_SCHEMA_VERSION, NULL, &version, err);
	if (r == 0)
		step->version = (int)rows_int(version, 0, 0);
	else if (err != NULL && strcmp(err->state, "42501") == 0)
		(void)err_prefix(err, "this user may not read schema \"%s\"; migrate as its owner",
			db_schema(step->db));
	return r;
}

static int check_rights(const struct step *step, struct err *err)
{
	const char *schema = db_schema(step->db);

	if (step->version > migrate_latest())
		return err_set(err, FAULT_DATABASE,
			"schema \"%s\" has version %d, newer than this inboxd knows (%d): upgrade "
			"inboxd",
			schema, step->version, migrate_latest());
	if (!step->schema_there && !step->may_create_schema)
		return err_set(err, FAULT_DATABASE,
			"schema \"%s\" does not exist and this user may not create it: run `CREATE "
			"SCHEMA "
			"%s AUTHORIZATION this_user` as the database's owner, or migrate as "
			"another user",
			schema, schema);
	if (step->schema_there && !step->may_create_in_it && step->version < migrate_latest())
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

static int apply(const struct step *step, const struct migration *migration, struct err *err)
{
	char note[128];
	int r = 0;

	if (!step->schema_there)
		r = create_schema(step->db, err);
	if (r == 0 && !step->versions_there)
		r = db_script(step->db, VERSION_TABLE, err);
	if (r == 0)
		r = db_script(step->db, migration->sql, err);
	if (r != 0)
		return err_prefix(err, "migration %s", migration->name);
	(void)snprintf(note, sizeof(note),
		"INSERT INTO inbox.inbox_schema_version (version) VALUES (%d)", migration->version);
	return db_script(step->db, note, err);
}

/* Applies the next migration that is missing, in one transaction behind the lock. */
static int run_step(struct step *step, struct err *err)
{
	int r = db_begin(step->db, err);

	if (r == 0)
		r = lock_schema(step->db, err);
	if (r == 0)
		r = look(step, err);
	if (r == 0)
		r = check_rights(step, err);
	if (r == 0 && step->version < migrate_latest())
		r = apply(step, &migrations[step->version], err);
	if (r != 0) {
		db_rollback(step->db);
		return r;
	}
	r = db_commit(step->db, err);
	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}

int migrate_run(struct db *db, int *applied, struct err *err)
{
	struct step step = { .db = db };
	int r;

	*applied = 0;
	do {
		r = run_step(&step, err);
		if (r == 0 && step.version < migrate_latest())
			(*applied)++;
	} while (r == 0 && step.version + 1 < migrate_latest());
	return r;
}

int migrate_roles(struct db *db, struct err *err)
{
	int r = db_begin(db, err);

	if (r == 0)
		r = lock_schema(db, err);
	if (r == 0)
		r = db_script(db, script_roles, err);
	if (r != 0) {
		db_rollback(db);
		return strcmp(err->state, "42501") == 0
			       ? err_prefix(err,
					 "roles: this user needs CREATEROLE, and to own the schema")
			       : err_prefix(err, "roles");
	}
	r = db_commit(db, err);
	return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
}
