/*
 * Writes rows when PostgreSQL may refuse some of them, and matches result rows with the rows that
 * were sent.
 */
#include <stdlib.h>

#include "store/inbox_private.h"

bool writing_is_refused(const struct writing *w, int r, const struct err *err)
{
	const struct inbox *inbox = w->inbox;

	if (r >= 0 || !db_is_open(inbox->db))
		return false;
	/* a reject that is not stored completely loses its bytes; only a bad value justifies that */
	if (db_error_is_data(err) || !inbox->isolating || w->rejects)
		return db_error_is_data(err);
	return db_error_may_be_row(err) && !db_error_is_clash(inbox->db, err);
}

int writing_bisect(const struct writing *w, const size_t *items, size_t count, struct err *err)
{
	struct err why = ERR_INIT;
	size_t half = count / 2;
	int r;

	if (count == 0)
		return 0;
	r = db_savepoint(w->inbox->db, err);
	if (r == 0)
		r = w->write(w, items, count, err);
	if (!writing_is_refused(w, r, err))
		return r;
	why = *err;
	r = db_rollback_to_savepoint(w->inbox->db, err);
	if (r != 0)
		return r;
	if (count == 1)
		return w->give_up(w, items[0], &why, err);
	r = writing_bisect(w, items, half, err);
	return r != 0 ? r : writing_bisect(w, items + half, count - half, err);
}

static const struct message *message_of(const struct writing *w, size_t item)
{
	return w->rejects ? w->batch->rejects[item].message : w->batch->rows[item].message;
}

size_t writing_match(const struct writing *w, const struct answer *answer, int row, size_t from)
{
	for (size_t i = 0; i < answer->count; i++) {
		size_t at = (from + i) % answer->count;

		if (answer->match(message_of(w, answer->items[at]), answer->rows, row))
			return at;
	}
	return answer->count;
}

int inbox_select_rows(const struct batch *batch, enum insert_result result, size_t **out,
	size_t *count, struct err *err)
{
	size_t *items = calloc(batch->row_count + 1, sizeof(*items));

	if (items == NULL)
		return err_memory(err);
	*count = 0;
	for (size_t i = 0; i < batch->row_count; i++) {
		if (batch->rows[i].result == result)
			items[(*count)++] = i;
	}
	*out = items;
	return 0;
}
