/*
 * Implements refused_batches.h.
 */
#include "ingest/batch/refused_batches.h"

#include <string.h>

#include "store/pg/db.h"

#define ENOUGH 3

void refused_batches_note(struct refused_batches *refused, const struct err *err, size_t rows)
{
	if (!db_error_may_be_row(err)) {
		refused_batches_forget(refused);
		return;
	}
	if (strcmp(refused->state, err->state) != 0)
		refused->count = 0;
	memcpy(refused->state, err->state, sizeof(refused->state));
	refused->count++;
	refused->rows = rows;
}

void refused_batches_forget(struct refused_batches *refused)
{
	*refused = (struct refused_batches){ .count = 0 };
}

bool refused_batches_are_enough(const struct refused_batches *refused)
{
	return refused->count >= ENOUGH;
}

bool refused_batches_need_others(const struct refused_batches *refused, size_t rows)
{
	return refused->count > ENOUGH && rows <= refused->rows;
}
