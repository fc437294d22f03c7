#include "store/privileges.h"

#include "base/cleanup.h"
#include "queries.h"

#define NAMED 5 /* rights that are told one by one */

/* The first of them, which tell what kind of user this is, and the role that has them all. */
static int say_missing(const struct rows *rows, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	const char *user = rows_text(rows, 0, 2);
	const char *sidecars = rows_text(rows, 0, 3);
	int count = rows_count(rows);

	for (int i = 0; i < count && i < NAMED; i++)
		buf_addf(&text, "%s %s ON %s", i == 0 ? ":" : ",", rows_text(rows, i, 1),
			rows_text(rows, i, 0));
	if (count > NAMED)
		buf_addf(&text, " and %d more", count - NAMED);
	(void)err_set(err, FAULT_CHECK, "user \"%s\" lacks rights that a sidecar needs%s", user,
		buf_str(&text));
	if (rows_bool(rows, 0, 4))
		return err_advise(err,
			"as the owner of the schema run `inboxd migrate --roles`: the role "
			"inboxd_sidecar, which \"%s\" has, is granted them then",
			user);
	if (sidecars != NULL)
		return err_advise(err,
			"check is for the user `inboxd run` has: name that one in postgres.user "
			"(the role "
			"inboxd_sidecar is granted to %s), or, if \"%s\" is to run it, GRANT "
			"inboxd_sidecar to it",
			sidecars, user);
	return err_advise(err,
		"check is for the user `inboxd run` has: if that is \"%s\", as the owner of the "
		"schema "
		"run `inboxd migrate --roles`, and GRANT inboxd_sidecar to it",
		user);
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
