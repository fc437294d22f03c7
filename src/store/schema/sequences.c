/*
 * Implements sequences.h.
 */
#include "store/schema/sequences.h"

#include <inttypes.h>
#include <string.h>

#include "queries.h"

static bool may_not(const struct err *err)
{
	return strcmp(err->state, "42501") == 0;
}

/* "inbox.inbox_messages_seq_seq: 0, highest row 4711; …" */
static void add_each(struct buf *out, const struct rows *rows)
{
	for (int i = 0; i < rows_count(rows); i++)
		buf_addf(out, "%s%s: %" PRId64 ", highest row %" PRId64, i == 0 ? "" : "; ",
			rows_text(rows, i, 0), rows_int(rows, i, 1), rows_int(rows, i, 2));
}

/* Keeps the SQLSTATE of the refusal, because no retry can cure it. */
static int refuse_sequences(const struct rows *behind, struct err *err)
{
	CLEANUP(buf_fini) struct buf words = BUF_INIT;
	CLEANUP(buf_fini) struct buf remedy = BUF_INIT;
	const struct err refusal = *err;

	add_each(&words, behind);
	for (int i = 0; i < rows_count(behind); i++)
		buf_addf(&remedy, "%s;%s", rows_text(behind, i, 3),
			i + 1 < rows_count(behind) ? " " : "");
	(void)err_set(err, FAULT_DATABASE,
		"sequences are behind their rows, so that new rows would get numbers that are "
		"already in use: %s",
		buf_str(&words));
	memcpy(err->state, refusal.state, sizeof(err->state));
	return err_advise(err, "as the owner of the schema run `%s`, or `inboxd migrate --roles`",
		buf_str(&remedy));
}

int sequences_check(struct db *db, struct buf *words, struct err *err)
{
	CLEANUP(rows_freep) struct rows *behind = NULL;
	CLEANUP(rows_freep) struct rows *set = NULL;
	struct err own = ERR_INIT;
	struct err *said = err == NULL ? &own : err;
	int r = db_run(db, QUERY_SEQUENCES_BEHIND, NULL, &behind, said);

	if (r < 0)
		return may_not(said) ? SEQUENCES_UNKNOWN : r;
	if (rows_count(behind) == 0)
		return 0;
	r = db_run(db, QUERY_ADVANCE_SEQUENCES, NULL, &set, said);
	if (r < 0)
		return may_not(said) ? refuse_sequences(behind, said) : r;
	add_each(words, set);
	return rows_count(set) > 0 ? SEQUENCES_SET : 0;
}
