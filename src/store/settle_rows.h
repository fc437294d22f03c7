/* How rows to settle become parameters, and what replaces a value that cannot be stored. */
#ifndef STORE_SETTLE_ROWS_H
#define STORE_SETTLE_ROWS_H

#include "base/buf.h"
#include "store/settle.h"

/* Which rows of a list go into a statement. Rows with status SETTLE_LOCKED never do. */
enum settle_part { PART_PLAIN, PART_OTHERS, PART_ALL };

bool is_part(const struct settle_row *row, enum settle_part part);
/* The list a statement is for, in the order of seqs. */
struct settle_list {
	struct settle_row *const *rows;
	size_t count;
};
/* The seqs of the PART_PLAIN of one group, between the instance's id and the delivery count and the handler
 * they share; how many. */
size_t add_alike(
	struct params *params, int32_t instance, const struct settle_list *list, int group);
/* seq and delivery_count behind the instance's id; how many rows. */
size_t add_tokens(struct params *params, int32_t instance, struct settle_row *const *rows,
	size_t count, enum settle_part part);
/* The handlers of the same rows. */
void add_handlers(
	struct params *params, struct settle_row *const *rows, size_t count, enum settle_part part);
/* The other columns of PART_OTHERS. */
void add_verdicts(struct params *params, struct settle_row *const *rows, size_t count);
void add_seqs(struct params *params, struct settle_row *const *rows, size_t count);

/* Replaces the result (or, when there is none or it was not the result, the error) by words; `note`
 * keeps them. False when there is nothing left to replace. */
struct settle_note {
	struct buf result;
	struct buf error;
};
bool settle_note_why(struct settle_note *note, struct settle_row *row, const struct err *why);
void settle_note_fini(struct settle_note *note);

#endif
