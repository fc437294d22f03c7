#include "store/privileges.h"

#include "base/cleanup.h"
#include "queries.h"

#define NAMED 5 /* rights that are told one by one */

/* The first of them, which tell what kind of user this is, and the role that has them all. */
static int say_missing(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	int count = rows_count(rows);

	for (int i = 0; i < count && i < NAMED; i++)
		buf_addf(&text, "%s %s ON %s", i == 0 ? ":" : ",", rows_text(rows, i, 1),
			rows_text(rows, i, 0));
	if (count > NAMED)
		buf_addf(&text, " and %d more", count - NAMED);
	(void)err_set(err, FAULT_CHECK, "this user lacks rights%s", buf_str(&text));
	return err_advise(err,
		"as the owner of the schema run `inboxd migrate --roles`, and GRANT inboxd_sidecar "
		"to this user");
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
