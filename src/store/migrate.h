/*
 * Migrations: numbered files embedded in the binary, applied in order under an advisory lock, each
 * in its own transaction, so two sidecars may start at once. One thread.
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "store/db.h"

enum { SCHEMA_OLDER = 1, SCHEMA_NEWER = 2, SCHEMA_MISSING = 3 };

/* The newest version this binary knows. */
int migrate_latest(void);
/* Compares the schema with this binary: 0 when they match, else an outcome above; `found` receives
 * the version there (0 = none). */
int migrate_check(struct db *db, int *found, struct err *err);
/* Creates the schema if need be and applies what is missing; `applied` receives how many. A newer
 * schema is FAULT_DATABASE: this binary does not touch it. Transaction advisory locks only. */
int migrate_run(struct db *db, int *applied, struct err *err);

/* Creates the four roles unless they are there, and grants each what it needs in this schema. In one
 * transaction, behind the migrations' lock. */
int migrate_roles(struct db *db, struct err *err);

#endif
