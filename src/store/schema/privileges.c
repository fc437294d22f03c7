/*
 * Implements privileges.h.
 */
#include "store/schema/privileges.h"

#include <string.h>

#include "base/cleanup.h"
#include "queries.h"
#include "store/schema/roles.h"

#define NAMED 5 /* number of privileges that the error names */

/* Names the first missing privileges and the role that contains all of them. */
static int report_missing(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const char *user = rows_text(rows, 0, 2);
	const char *sidecars = rows_text(rows, 0, 3);
	const char *role = rows_text(rows, 0, 5);
	int count = rows_count(rows);

	for (int i = 0; i < count && i < NAMED; i++)
		buf_addf(&text, "%s %s ON %s", i == 0 ? ":" : ",", rows_text(rows, i, 1),
			rows_text(rows, i, 0));
	if (count > NAMED)
		buf_addf(&text, " and %d more", count - NAMED);
	(void)err_set(err, FAULT_CHECK, "user \"%s\" lacks privileges that inboxd needs%s", user,
		buf_str(&text));
	if (rows_bool(rows, 0, 4))
		return err_advise(err,
			"as the owner of the schema run `inboxd migrate --roles`: it grants them "
			"to the role %s, which \"%s\" has",
			role, user);
	if (sidecars != NULL)
		return err_advise(err,
			"check must run as the user of `inboxd run`: set that user in "
			"postgres.user (the role %s is granted to %s), or, if \"%s\" is that user, "
			"GRANT %s to it",
			role, sidecars, user, role);
	return err_advise(err,
		"check must run as the user of `inboxd run`: if \"%s\" is that user, run `inboxd "
		"migrate --roles` as the owner of the schema, and GRANT %s to the user",
		user, role);
}

int privileges_check(struct db *db, bool requests, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct rows *rows = NULL;
	int r;

	params_bool(&params, requests);
	r = db_run(db, QUERY_CHECK_PRIVILEGES, &params, &rows, err);
	if (r == 0 && rows_count(rows) > 0)
		r = report_missing(rows, err);
	rows_free(rows);
	return r == 0 ? db_run(db, QUERY_CHECK_VISIBLE, NULL, NULL, err) : r;
}

static void warn_of_shared_roles(struct buf *found, const struct rows *rows, int row)
{
	const char *prefix = rows_text(rows, row, SHARED_PREFIX);
	const char *place = rows_text(rows, row, SHARED_PLACE);
	const char *database = rows_text(rows, row, SHARED_DATABASE);
	const char *other = rows_text(rows, row, SHARED_OTHER);
	bool is_other_database = strcmp(database, other) != 0;

	if (!rows_bool(rows, row, SHARED_HERE) && !rows_bool(rows, row, SHARED_THERE))
		return;
	buf_addf(found,
		"\nwarning: roles belong to the whole server, and %s_sidecar, %s_service and so on "
		"may also use %s:",
		prefix, prefix, place);
	if (rows_bool(rows, row, SHARED_HERE))
		buf_addf(found, " users of %s can act in this inbox;", place);
	if (rows_bool(rows, row, SHARED_THERE))
		buf_addf(found, " this user can act in the inbox of %s;", place);
	buf_addf(found, " give each inbox roles of its own: `inboxd migrate --roles=PREFIX`");
	if (!is_other_database)
		return;
	buf_addf(found,
		", or let only its own users connect to a database, as its owner: GRANT CONNECT ON "
		"DATABASE %s TO "
		"…; REVOKE CONNECT ON DATABASE %s FROM PUBLIC; the same for %s",
		database, database, other);
}

int privileges_warn(struct db *db, struct buf *found, struct err *err)
{
	CLEANUP(rows_freep) struct rows *owner = NULL;
	CLEANUP(rows_freep) struct rows *shared = NULL;
	int r = db_run(db, QUERY_CHECK_OWNER, NULL, &owner, err);

	if (r == 0)
		r = roles_shared(db, NULL, &shared, err);
	if (r != 0)
		return r;
	if (rows_count(owner) > 0)
		buf_addf(found,
			"\nwarning: this user owns the schema, which is more than a sidecar needs: "
			"run it as a user of its own, with the role %s",
			rows_text(owner, 0, 0));
	for (int i = 0; i < rows_count(shared); i++)
		warn_of_shared_roles(found, shared, i);
	return buf_ok(found) ? 0 : err_memory(err);
}
