/*
 * The parameters of the statements that settle verdicts (settle.c). Pure; any thread.
 */
#ifndef STORE_CLAIMS_SETTLE_PARAMS_H
#define STORE_CLAIMS_SETTLE_PARAMS_H

#include "store/claims/settle.h"

/* The rows of a list that a statement settles. */
enum settle_part {
	PART_PLAIN,    /* processed, with nothing else to write */
	PART_EMITTING, /* processed, with events */
	PART_OTHERS,
	PART_ALL,
};

struct settle_list {
	int32_t instance;
	struct settle_row *const *rows;
	size_t count;
};

static inline bool settle_emits(const struct settle_row *row)
{
	return row->emit.data != NULL;
}

/* True for a row of this part with status SETTLE_OPEN. */
bool settle_is_part(const struct settle_row *row, enum settle_part part);

/* Adds the instance id, and seq and delivery count of each row of this part. Returns the number of rows. */
size_t settle_params_claims(struct params *params, struct settle_list list, enum settle_part part);
/* Adds the handlers of the same rows. */
void settle_params_handlers(struct params *params, struct settle_list list, enum settle_part part);
/* All parameters of settle_verdicts.sql and settle_emitting.sql. Return the number of rows; 0 = nothing was added but
 * the claims. */
size_t settle_params_verdicts(struct params *params, struct settle_list list);
size_t settle_params_emitting(struct params *params, struct settle_list list);

#endif
