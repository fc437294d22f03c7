#include "store/privileges.h"

#include "base/cleanup.h"
#include "queries.h"

static int say_missing(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	buf_add_str(&text, "this user lacks rights; as the owner of the schema:");
	for (int i = 0; i < rows_count(rows); i++)
		buf_addf(&text, " GRANT %s ON %s TO …;", rows_text(rows, i, 1),
			rows_text(rows, i, 0));
	return err_set(err, FAULT_CHECK, "%s", buf_str(&text));
}

int privileges_check(struct db *db, struct err *err)
{
	struct rows *rows = NULL;
	int r = db_run(db, QUERY_CHECK_PRIVILEGES, NULL, &rows, err);

	if (r == 0 && rows_count(rows) > 0)
		r = say_missing(rows, err);
	rows_free(rows);
	return r;
}
