/*
 * Finds the rows that PostgreSQL refuses to change, for example because of a trigger or a foreign key of the user. A list
 * that fails is halved until such a row is alone; the other rows are done. Each part is a transaction of its own, so a
 * constraint or trigger that is deferred to the COMMIT concerns no other part. If PostgreSQL accepts no row at all, the
 * cause is the database. Each refused row costs some statements that fail, so a run ends after `refusals_left` refused
 * rows.
 */
#ifndef STORE_PG_HALVING_H
#define STORE_PG_HALVING_H

#include "store/pg/db.h"

struct halving {
	struct db *db;
	/* Changes `count` rows from `first` on, in one transaction. */
	int (*run)(void *arg, size_t first, size_t count, struct err *err);
	/* Rows that are left as they are: PostgreSQL refuses the one row for the reason in `err`; or they were not tried any
	 * more, and `err` is NULL. */
	int (*leave_out)(void *arg, size_t first, size_t count, struct err *err);
	void *arg;
	int refusals_left;
};

int halving_run(struct halving *halving, size_t first, size_t count, struct err *err);

#endif
