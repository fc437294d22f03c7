/*
 * Implements roles.h.
 */
#include "store/schema/roles.h"

#include <string.h>

#include "base/cleanup.h"
#include "queries.h"

int roles_list(struct db *db, const char *prefix, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_text(&params, prefix);
	return db_run(db, QUERY_LIST_ROLES, &params, out, err);
}

int roles_prefixes(struct db *db, struct rows **out, struct err *err)
{
	return db_run(db, QUERY_ROLE_PREFIXES, NULL, out, err);
}

int roles_shared(struct db *db, const char *prefix, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_text(&params, prefix);
	return db_run(db, QUERY_SHARED_ROLES, &params, out, err);
}

int roles_grant(struct db *db, const struct roles_grant *grant, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, grant->prefix);
	params_text(&params, grant->suffix);
	params_text(&params, grant->user);
	r = db_run(db, QUERY_GRANT_ROLE, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0) {
		(void)err_set(err, FAULT_DATABASE, "--grant: there is no user \"%s\"", grant->user);
		return err_advise(err,
			"create it, for example with CREATE ROLE … LOGIN PASSWORD '…', and run "
			"this command again");
	}
	for (int i = 0; i < 2 && r == 0; i++) {
		if (!rows_is_null(rows, 0, i))
			r = db_script(db, rows_text(rows, 0, i), err);
	}
	if (r != 0 && strcmp(err->state, "42501") == 0)
		(void)err_prefix(err, "--grant: this user must have created the roles, or have "
				      "ADMIN OPTION for them");
	return r;
}
