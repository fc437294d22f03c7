#include "store/privileges.h"

#include "base/cleanup.h"
#include "queries.h"

static int say_missing(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;

	for (int i = 0; i < rows_count(rows); i++)
		buf_addf(&text, " GRANT %s ON %s TO …;", rows_text(rows, i, 1),
			rows_text(rows, i, 0));
	(void)err_set(err, FAULT_CHECK, "this user lacks rights");
	return err_advise(err, "as the owner of the schema:%s", buf_str(&text));
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
