/*
 * Checks for `inboxd check` whether the database user has all privileges that inboxd needs to run.
 * Blocking; one db, one thread.
 */
#ifndef STORE_SCHEMA_PRIVILEGES_H
#define STORE_SCHEMA_PRIVILEGES_H

#include "store/pg/db.h"

/* FAULT_CHECK: the text names the first missing privileges and the command that grants them. `requests`: also those that
 * requests.socket needs. */
int privileges_check(struct db *db, bool requests, struct err *err);
/* Adds a line to `found` for each privilege that this user or others have without need: the schema is its own, or its roles are those
 * of another inbox, too. */
int privileges_warn(struct db *db, struct buf *found, struct err *err);

#endif
