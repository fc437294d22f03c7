/*
 * Implements roles.h.
 */
#include "store/schema/roles.h"

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
