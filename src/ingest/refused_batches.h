/*
 * Batches that PostgreSQL refuses one after the other, for a reason that may be a single row's: a trigger that raises, a
 * damaged page. After a few in a row, with the same SQLSTATE, the rows are to be tried one by one (inbox_isolate()).
 * Pure. The ingest thread.
 */
#ifndef INGEST_REFUSED_BATCHES_H
#define INGEST_REFUSED_BATCHES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct refused_batches {
	char state[6];
	int count;   /* in a row */
	size_t rows; /* of the batch that was refused last */
};

/* A batch of so many rows was not stored; any other fault ends the row of refusals. */
void refused_batches_note(struct refused_batches *refused, const struct err *err, size_t rows);
/* One was stored. */
void refused_batches_forget(struct refused_batches *refused);
/* The next one is to be tried row by row. */
bool refused_batches_are_enough(const struct refused_batches *refused);
/* That was tried, and none went through. Of so few rows the next try says no more: others must come with them, for
 * only those show that it is the rows and not the database. */
bool refused_batches_need_others(const struct refused_batches *refused, size_t rows);

#endif
