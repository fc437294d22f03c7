#include "ingest/refusals.h"

#include <string.h>

#include "store/db.h"

#define ENOUGH 3

void refusals_note(struct refusals *refusals, const struct err *err, size_t rows)
{
	if (!db_error_may_be_row(err)) {
		refusals_forget(refusals);
		return;
	}
	if (strcmp(refusals->state, err->state) != 0)
		refusals->count = 0;
	memcpy(refusals->state, err->state, sizeof(refusals->state));
	refusals->count++;
	refusals->rows = rows;
}

void refusals_forget(struct refusals *refusals)
{
	*refusals = (struct refusals){ .count = 0 };
}

bool refusals_are_enough(const struct refusals *refusals)
{
	return refusals->count >= ENOUGH;
}

bool refusals_want_company(const struct refusals *refusals, size_t rows)
{
	return refusals->count > ENOUGH && rows <= refusals->rows;
}
