/*
 * Counts consecutive batches that PostgreSQL refused for a reason that may concern a single row,
 * for example a trigger that raises an error, or a damaged page. After three with the same SQLSTATE
 * the rows are tried one by one (batch_writer_isolate()). Pure. The ingest thread.
 */
#ifndef INGEST_BATCH_REFUSED_BATCHES_H
#define INGEST_BATCH_REFUSED_BATCHES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct refused_batches {
	char state[6];
	int count;   /* consecutive refusals */
	size_t rows; /* rows of the batch that was refused last */
};

/* Records that a batch of `rows` rows was refused. A different kind of fault resets the count. */
void refused_batches_note(struct refused_batches *refused, const struct err *err, size_t rows);
/* Records that a batch was stored. */
void refused_batches_forget(struct refused_batches *refused);
/* True when the next batch must be tried row by row. */
bool refused_batches_are_enough(const struct refused_batches *refused);
/* True when the rows were tried one by one and none was accepted. A retry of the same few rows
 * proves nothing: it needs another row, whose success shows that the rows are the cause and not the
 * database. */
bool refused_batches_need_others(const struct refused_batches *refused, size_t rows);

#endif
