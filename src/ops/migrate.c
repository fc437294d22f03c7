/*
 * `inboxd migrate`: creates or updates the schema. A running migration checks several times a
 * second whether to stop; Ctrl-C then leaves the schema at the last complete migration.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/numbers.h"
#include "daemon/migration.h"
#include "ops/commands.h"
#include "ops/op.h"
#include "store/connection_options.h"
#include "store/schema/roles.h"

static bool is_uninterrupted(void *arg)
{
	(void)arg;
	return !op_interrupted();
}

/* --- The roles --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const char *user; /* in the GRANT line; to be replaced */
	const char *use;
} roles[] = {
	{ "inboxd_sidecar", "SIDECAR_USER", "the user of `inboxd run`" },
	{ "inboxd_handler", "SERVICE_USER", "a handler that calls inbox.complete()" },
	{ "inboxd_service", "SERVICE_USER",
		"a service that calls inbox.emit() or inbox.request_begin()" },
	{ "inboxd_operator", "OPERATOR", "a person who replays, discards or skips messages" },
	{ "inboxd_reader", "READER", "a person or a dashboard that only reads" },
};

static int read_roles(const struct config *config, struct rows **out, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	struct db_options options;
	char name[32];
	int r;

	connection_options(config, 0, name, &options);
	r = db_new(&db, &options, err);
	if (r == 0)
		r = db_open(db, err);
	return r != 0 ? r : roles_list(db, out, err);
}

/* The roles and users that have this role; NULL: it does not exist. */
static const char *members(const struct rows *rows, const char *role)
{
	for (int i = 0; i < rows_count(rows); i++) {
		if (strcmp(rows_text(rows, i, ROLES_NAME), role) == 0)
			return rows_text(rows, i, ROLES_MEMBERS);
	}
	return NULL;
}

static void print_roles(const struct rows *before, const struct rows *after)
{
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		const char *has = members(after, roles[i].name);

		(void)printf("role %-16s %s, privileges granted; %s", roles[i].name,
			members(before, roles[i].name) == NULL ? "made now" : "existed",
			has == NULL || has[0] == '\0' ? "nobody has it" : "granted to ");
		op_print_text(stdout, bytes_of(has == NULL ? "" : has), false);
		(void)putchar('\n');
	}
	(void)puts("\nNext, as a superuser or as the user of this command, with the names of your "
		   "users:");
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		(void)printf(
			"  GRANT %s TO %s;  -- %s\n", roles[i].name, roles[i].user, roles[i].use);
	(void)puts("Then `inboxd check`, as the user of `inboxd run`, shows what is missing.");
}

/* Makes the roles, and says which, and what to grant next. */
static int make_roles(
	const struct config *config, const struct migration_stop *stop, struct err *err)
{
	CLEANUP(rows_freep) struct rows *before = NULL;
	CLEANUP(rows_freep) struct rows *after = NULL;
	int r = read_roles(config, &before, err);

	if (r == 0)
		r = migration_grant(config, stop, err);
	if (r == 0)
		r = read_roles(config, &after, err);
	if (r == 0)
		print_roles(before, after);
	return r;
}

int command_migrate(const struct cli *cli, const struct config *config, struct err *err)
{
	const struct migration_stop stop = { is_uninterrupted, NULL };
	struct migrate_result result = { 0 };
	bool ahead;
	int r;

	op_interrupt_begin();
	r = migration_run(config, &stop, &result, err);
	ahead = result.version > migrate_latest();
	if (r == 0 && cli->roles && !ahead)
		r = make_roles(config, &stop, err);
	if (r == MIGRATE_STOPPED)
		(void)fprintf(stderr,
			"inboxd: interrupted after %d migration%s; run it again to continue\n",
			result.applied, plural(result.applied));
	op_interrupt_obey();
	/* a newer inboxd has migrated this schema and says that this one can use it */
	if (r == 0 && ahead)
		(void)printf(
			"schema \"%s\": version %d, newer than this inboxd (%d), which can use it; "
			"nothing changed\n",
			config->inbox.schema, result.version, migrate_latest());
	else if (r == 0)
		(void)printf("schema \"%s\": version %d, %d migration%s applied now\n",
			config->inbox.schema, result.version, result.applied,
			plural(result.applied));
	return op_explain(r, COMMAND_MIGRATE, config, err);
}
