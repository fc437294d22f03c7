/*
 * Turns rows to settle into statement parameters, and replaces a value that PostgreSQL cannot store
 * by a note. Pure. One thread.
 */
#ifndef STORE_CLAIMS_SETTLE_ROWS_H
#define STORE_CLAIMS_SETTLE_ROWS_H

#include "base/buf.h"
#include "store/claims/settle.h"

/* Selects the rows of a list that a statement contains. Rows with status SETTLE_LOCKED are never
 * included. */
enum settle_part { PART_PLAIN, PART_OTHERS, PART_ALL };

bool is_part(const struct settle_row *row, enum settle_part part);
/* The rows of one statement, ordered by seq. */
struct settle_list {
	struct settle_row *const *rows;
	size_t count;
};
/* Appends the seqs of the PART_PLAIN rows of one group, after the instance id and before the
 * delivery count and the handler that they share. Returns the number of rows. */
size_t add_alike(
	struct params *params, int32_t instance, const struct settle_list *list, int group);
/* Appends seq and delivery_count after the instance id. Returns the number of rows. */
size_t add_tokens(struct params *params, int32_t instance, struct settle_row *const *rows,
	size_t count, enum settle_part part);
/* Appends the handlers of the same rows. */
void add_handlers(
	struct params *params, struct settle_row *const *rows, size_t count, enum settle_part part);
/* Appends the other columns of the PART_OTHERS rows. */
void add_verdicts(struct params *params, struct settle_row *const *rows, size_t count);
void add_seqs(struct params *params, struct settle_row *const *rows, size_t count);

/* Replaces the result by a note that explains why it could not be stored. When there is no result,
 * or the result was not the cause, it replaces the error text. `note` owns the text. False: nothing
 * is left to replace. */
struct settle_note {
	struct buf result;
	struct buf error;
};
bool settle_note_why(struct settle_note *note, struct settle_row *row, const struct err *why);
void settle_note_fini(struct settle_note *note);

#endif
