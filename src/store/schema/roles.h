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
	ROLES_LOGIN /* it can log in, so it is somebody's user */
};

/* One row for each other schema whose roles are those of this schema, too. */
enum shared_column {
	SHARED_PREFIX,
	SHARED_PLACE, /* "the schema …", "the database …" */
	SHARED_HERE,  /* its users can connect to this database without a GRANT for it */
	SHARED_THERE, /* this user has one of the roles and can connect there */
	SHARED_DATABASE,
	SHARED_OTHER /* database */
};

/* The roles with this prefix; NULL: those that may use the schema, or inboxd. The caller frees the rows. */
int roles_list(struct db *db, const char *prefix, struct rows **out, struct err *err);
/* One row and column for each prefix of roles that may use the schema. The caller frees the rows. */
int roles_prefixes(struct db *db, struct rows **out, struct err *err);
/* `prefix` as above. The caller frees the rows. */
int roles_shared(struct db *db, const char *prefix, struct rows **out, struct err *err);

/* A user gets the role whose name ends with `suffix`. It also gets CONNECT on the database if the user of `db` may grant it. */
struct roles_grant {
	const char *prefix; /* NULL = that of the schema */
	const char *suffix;
	const char *user;
};
/* FAULT_DATABASE: PostgreSQL refuses the grant, or there is no such user. */
int roles_grant(struct db *db, const struct roles_grant *grant, struct err *err);

#endif
