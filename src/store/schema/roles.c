/*
 * Implements roles.h.
 */
#include "store/schema/roles.h"

#include "queries.h"

int roles_list(struct db *db, struct rows **out, struct err *err)
{
	return db_run(db, QUERY_LIST_ROLES, NULL, out, err);
}
