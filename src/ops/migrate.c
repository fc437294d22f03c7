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

#define PREFIX_MOST 54 /* a name in PostgreSQL has 63 bytes, and the longest suffix nine */

static const struct {
	const char *suffix;
	const char *user; /* in the GRANT line; to be replaced */
	const char *use;
} roles[] = {
	{ "sidecar", "SIDECAR_USER", "the user of `inboxd run`" },
	{ "handler", "SERVICE_USER", "a handler that calls inbox.complete()" },
	{ "service", "SERVICE_USER", "a service that calls inbox.emit() or inbox.request_begin()" },
	{ "operator", "OPERATOR", "a person who replays, discards or skips messages" },
	{ "reader", "READER", "a person or a dashboard that only reads" },
};

/* Without quotes it must be one name in SQL, and not one of PostgreSQL's own. */
static int check_prefix(const char *prefix, struct err *err)
{
	size_t length = strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_");

	if (prefix[length] == '\0' && length <= PREFIX_MOST && strspn(prefix, "0123456789") == 0 &&
		strncmp(prefix, "pg_", 3) != 0 && strcmp(prefix, "pg") != 0)
		return 0;
	return err_set(err, FAULT_USAGE,
		"--roles: \"%s\" is not a valid prefix: use at most %d characters of a to z, "
		"0 to 9 and _; do not begin with a digit or pg_, and do not use pg",
		prefix, PREFIX_MOST);
}

static int open_db(const struct config *config, struct db **out, struct err *err)
{
	struct db_options options;
	char name[32];
	int r;

	connection_options(config, 0, name, &options);
	r = db_new(out, &options, err);
	return r == 0 ? db_open(*out, err) : r;
}

static bool has_role(const struct rows *rows, const char *role)
{
	for (int i = 0; i < rows_count(rows); i++) {
		if (strcmp(rows_text(rows, i, ROLES_NAME), role) == 0)
			return true;
	}
	return false;
}

static void print_line(const char *before, const char *text, const char *after)
{
	(void)fputs(before, stdout);
	op_print_text(stdout, bytes_of(text), false);
	(void)puts(after);
}

static void print_grant(const struct rows *rows, int row)
{
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strcmp(roles[i].suffix, rows_text(rows, row, ROLES_SUFFIX)) == 0)
			(void)printf("  GRANT %s TO %s;  -- %s\n", rows_text(rows, row, ROLES_NAME),
				roles[i].user, roles[i].use);
	}
}

static void print_roles(const struct rows *before, const struct rows *after)
{
	const char *elsewhere = "";

	for (int i = 0; i < rows_count(after); i++) {
		const char *name = rows_text(after, i, ROLES_NAME);
		const char *has = rows_text(after, i, ROLES_MEMBERS);

		(void)printf("role %-16s %s, privileges granted; ", name,
			has_role(before, name) ? "existed" : "made now");
		print_line(has[0] == '\0' ? "nobody has it" : "granted to ", has, "");
		if (elsewhere[0] == '\0')
			elsewhere = rows_text(after, i, ROLES_ELSEWHERE);
	}
	if (elsewhere[0] != '\0')
		print_line("\nRoles belong to the whole server. These may also use ", elsewhere,
			". If that is another\nservice, each can act in the inbox of the other: "
			"give this "
			"schema roles of its own with --roles=PREFIX.");
	(void)puts("\nNext, as a superuser or as the user of this command, with the names of your "
		   "users:");
	for (int i = 0; i < rows_count(after); i++)
		print_grant(after, i);
	(void)puts("Then `inboxd check`, as the user of `inboxd run`, shows what is missing.");
}

/* Roles with another prefix that may use the schema, too: since an earlier `migrate --roles`. */
static int print_others(struct db *db, const char *prefix, struct err *err)
{
	static const char *const kinds[] = { "ALL TABLES IN", "ALL SEQUENCES IN",
		"ALL FUNCTIONS IN", "" };
	CLEANUP(rows_freep) struct rows *used = NULL;
	int r = prefix == NULL ? 0 : roles_prefixes(db, &used, err);

	for (int i = 0; r == 0 && prefix != NULL && i < rows_count(used); i++) {
		const char *other = rows_text(used, i, 0);

		if (strcmp(other, prefix) == 0)
			continue;
		(void)printf("\nThe roles %s_sidecar and so on may use the schema, too. When every "
			     "user has "
			     "the new\nroles, take this from them:\n",
			other);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			(void)printf("  REVOKE ALL ON %s%sSCHEMA %s FROM %s_sidecar, %s_handler, "
				     "%s_service, "
				     "%s_operator, %s_reader;\n",
				kinds[k], kinds[k][0] == '\0' ? "" : " ", db_schema(db), other,
				other, other, other, other);
	}
	return r;
}

/* Makes the roles, and says which, and what to grant next. */
static int make_roles(const struct config *config, const struct migration_stop *stop,
	const char *prefix, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(rows_freep) struct rows *before = NULL;
	CLEANUP(rows_freep) struct rows *after = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = roles_list(db, prefix, &before, err);
	if (r == 0)
		r = migration_grant(config, stop, prefix, err);
	if (r == 0)
		r = roles_list(db, prefix, &after, err);
	if (r != 0)
		return r;
	print_roles(before, after);
	return print_others(db, prefix, err);
}

int command_migrate(const struct cli *cli, const struct config *config, struct err *err)
{
	const struct migration_stop stop = { is_uninterrupted, NULL };
	const char *prefix = cli->roles == NULL || cli->roles[0] == '\0' ? NULL : cli->roles;
	struct migrate_result result = { 0 };
	bool ahead;
	int r = prefix == NULL ? 0 : check_prefix(prefix, err);

	if (r != 0)
		return r;
	op_interrupt_begin();
	r = migration_run(config, &stop, &result, err);
	ahead = result.version > migrate_latest();
	if (r == 0 && cli->roles != NULL && !ahead)
		r = make_roles(config, &stop, prefix, err);
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
