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

/* NULL: that of the schema. */
static const char *prefix_of(const struct cli *cli)
{
	return cli->roles == NULL || cli->roles[0] == '\0' ? NULL : cli->roles;
}

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

static bool was_granted(const struct cli *cli, const char *suffix)
{
	size_t length = strlen(suffix);

	for (size_t i = 0; i < cli->grants.count; i++) {
		if (strncmp(cli->grants.items[i], suffix, length) == 0 &&
			cli->grants.items[i][length] == '=')
			return true;
	}
	return false;
}

/* The statements are for the roles that --grant has given to nobody. */
static void print_roles(const struct cli *cli, const struct rows *before, const struct rows *after)
{
	bool first = true;

	for (int i = 0; i < rows_count(after); i++) {
		const char *name = rows_text(after, i, ROLES_NAME);
		const char *has = rows_text(after, i, ROLES_MEMBERS);

		(void)printf("role %-16s %s, privileges granted; ", name,
			has_role(before, name) ? "existed" : "made now");
		print_line(has[0] == '\0' ? "nobody has it" : "granted to ", has, "");
	}
	for (int i = 0; i < rows_count(after); i++) {
		if (was_granted(cli, rows_text(after, i, ROLES_SUFFIX)))
			continue;
		if (first)
			(void)puts(
				"\nNext, as a superuser or as the user of this command, with the "
				"names of your users:");
		first = false;
		print_grant(after, i);
	}
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

/* If another schema has the same roles, prints what their users can do there. */
static int print_shared(struct db *db, const char *prefix, struct err *err)
{
	CLEANUP(rows_freep) struct rows *shared = NULL;
	CLEANUP(buf_fini) struct buf places = BUF_INIT;
	int r = roles_shared(db, prefix, &shared, err);

	if (r != 0 || rows_count(shared) == 0)
		return r;
	for (int i = 0; i < rows_count(shared); i++)
		buf_addf(&places, "%s%s", i == 0 ? "" : ", ", rows_text(shared, i, SHARED_PLACE));
	if (!buf_ok(&places))
		return err_memory(err);
	print_line("\nRoles belong to the whole server. These may also use ", buf_str(&places),
		". If that is another\nservice, each can act in the inbox of the other: give this "
		"schema roles of its own with --roles=PREFIX.");
	return 0;
}

/* Without a prefix, a schema that has no roles yet would get those of another inbox on the server. The users of that inbox
 * could then act in this schema. */
static int refuse_shared(struct db *db, const char *prefix, struct err *err)
{
	CLEANUP(rows_freep) struct rows *used = NULL;
	CLEANUP(rows_freep) struct rows *shared = NULL;
	int r = prefix != NULL ? 0 : roles_prefixes(db, &used, err);

	if (r != 0 || prefix != NULL || rows_count(used) > 0)
		return r;
	r = roles_shared(db, NULL, &shared, err);
	if (r != 0 || rows_count(shared) == 0)
		return r;
	(void)err_set(err, FAULT_USAGE,
		"--roles: roles belong to the whole server, and " ROLES_PREFIX
		"_sidecar, " ROLES_PREFIX
		"_service and so on are those of %s already: the users of "
		"one inbox could act in the other",
		rows_text(shared, 0, SHARED_PLACE));
	return err_advise(err,
		"give schema \"%s\" roles of its own with --roles=PREFIX, for example the name "
		"of the service; --roles=" ROLES_PREFIX " shares them on purpose",
		db_schema(db));
}

/* A user with the name of one of the roles would get the privileges of this role. Refused before anything is changed; the script
 * refuses a user that is made in between. */
static int refuse_user(const struct config *config, const char *prefix, struct err *err)
{
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = roles_list(db, prefix, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		const char *name = rows_text(rows, i, ROLES_NAME);

		if (!rows_bool(rows, i, ROLES_LOGIN))
			continue;
		(void)err_set(err, FAULT_USAGE,
			"--roles: role \"%s\" exists and can log in: it is a user, who would get "
			"the "
			"privileges of the role; nothing was changed",
			name);
		return err_advise(err,
			"use another --roles=PREFIX, or rename the user with ALTER ROLE %s RENAME "
			"TO "
			"…; without --roles, `inboxd migrate` leaves the roles alone",
			name);
	}
	return r;
}

/* --- Their members ----------------------------------------------------------------------------- */

/* The role in a text ROLE=USER; NULL: there is none. */
static const char *role_of(const char *grant)
{
	size_t length = strcspn(grant, "=");

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strlen(roles[i].suffix) == length &&
			memcmp(roles[i].suffix, grant, length) == 0 && grant[length] == '=' &&
			grant[length + 1] != '\0')
			return roles[i].suffix;
	}
	return NULL;
}

static int check_grants(const struct cli *cli, struct err *err)
{
	if (cli->grants.count > 0 && cli->roles == NULL)
		return err_set(err, FAULT_USAGE, "--grant needs --roles");
	for (size_t i = 0; i < cli->grants.count; i++) {
		if (role_of(cli->grants.items[i]) == NULL)
			return err_set(err, FAULT_USAGE,
				"--grant %s: write ROLE=USER with one of the roles sidecar, "
				"handler, service, operator and reader",
				cli->grants.items[i]);
	}
	return 0;
}

static int grant_members(struct db *db, const struct cli *cli, const char *prefix, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < cli->grants.count && r == 0; i++) {
		const char *text = cli->grants.items[i];
		const struct roles_grant grant = { prefix, role_of(text), strchr(text, '=') + 1 };

		r = roles_grant(db, &grant, err);
	}
	return r;
}

/* Makes the roles, and says which, and what to grant next. */
static int make_roles(const struct config *config, const struct migration_stop *stop,
	const struct cli *cli, struct err *err)
{
	const char *prefix = prefix_of(cli);
	CLEANUP(db_freep) struct db *db = NULL;
	CLEANUP(rows_freep) struct rows *before = NULL;
	CLEANUP(rows_freep) struct rows *after = NULL;
	int r = open_db(config, &db, err);

	if (r == 0)
		r = refuse_shared(db, prefix, err);
	if (r == 0)
		r = roles_list(db, prefix, &before, err);
	if (r == 0)
		r = migration_grant(config, stop, prefix, err);
	if (r == 0)
		r = grant_members(db, cli, prefix, err);
	if (r == 0)
		r = roles_list(db, prefix, &after, err);
	if (r != 0)
		return r;
	print_roles(cli, before, after);
	r = print_shared(db, prefix, err);
	return r != 0 ? r : print_others(db, prefix, err);
}

int command_migrate(const struct cli *cli, const struct config *config, struct err *err)
{
	const struct migration_stop stop = { is_uninterrupted, NULL };
	struct migrate_result result = { 0 };
	bool ahead;
	int r = prefix_of(cli) == NULL ? 0 : check_prefix(cli->roles, err);

	if (r == 0)
		r = check_grants(cli, err);
	if (r == 0 && cli->roles != NULL)
		r = refuse_user(config, prefix_of(cli), err);
	if (r != 0)
		return op_explain(r, COMMAND_MIGRATE, config, err);
	op_interrupt_begin();
	r = migration_run(config, &stop, &result, err);
	ahead = result.version > migrate_latest();
	if (r == 0 && cli->roles != NULL && !ahead)
		r = make_roles(config, &stop, cli, err);
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
