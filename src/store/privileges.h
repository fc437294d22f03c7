/* May this database user do all that a sidecar does? For `inboxd check`. */
#ifndef STORE_PRIVILEGES_H
#define STORE_PRIVILEGES_H

#include "store/db.h"

/* FAULT_CHECK naming what is missing, the first few of it, and what mends it. */
int privileges_check(struct db *db, struct err *err);

#endif
