/*
 * The roles that `inboxd migrate --roles` makes, as they are in the cluster. Blocks.
 */
#ifndef STORE_SCHEMA_ROLES_H
#define STORE_SCHEMA_ROLES_H

#include "store/pg/db.h"

/* One row for each role that exists. */
enum roles_column { ROLES_NAME, ROLES_MEMBERS };

/* The caller frees the rows. */
int roles_list(struct db *db, struct rows **out, struct err *err);

#endif
