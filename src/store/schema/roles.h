/*
 * The roles that `inboxd migrate --roles` makes, as they are in the cluster. Blocks.
 */
#ifndef STORE_SCHEMA_ROLES_H
#define STORE_SCHEMA_ROLES_H

#include "store/pg/db.h"

/* One row for each role that exists. */
enum roles_column {
	ROLES_NAME,
	ROLES_SUFFIX, /* the name without the prefix */
	ROLES_MEMBERS,
	ROLES_ELSEWHERE /* other schemas that it may use; "" = none */
};

/* The roles with this prefix; NULL: those that may use the schema, or inboxd. The caller frees the rows. */
int roles_list(struct db *db, const char *prefix, struct rows **out, struct err *err);
/* One row and column for each prefix of roles that may use the schema. The caller frees the rows. */
int roles_prefixes(struct db *db, struct rows **out, struct err *err);

#endif
