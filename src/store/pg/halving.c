/*
 * Implements halving.h.
 */
#include "store/pg/halving.h"

int halving_run(struct halving *halving, size_t first, size_t count, struct err *err)
{
	size_t half = count / 2;
	int r;

	if (count == 0)
		return 0;
	if (halving->refusals_left == 0)
		return halving->leave_out(halving->arg, first, count, NULL);
	r = halving->run(halving->arg, first, count, err);
	if (r != FAULT_DATABASE || !db_is_open(halving->db) || !db_error_may_be_row(err))
		return r;
	if (count == 1) {
		halving->refusals_left--;
		return halving->leave_out(halving->arg, first, 1, err);
	}
	r = halving_run(halving, first, half, err);
	return r != 0 ? r : halving_run(halving, first + half, count - half, err);
}
