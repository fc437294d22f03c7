/* Verdicts that wait alone: see settle_retries.c. The dispatch thread. */
#ifndef DISPATCH_SETTLE_RETRIES_H
#define DISPATCH_SETTLE_RETRIES_H

#include "dispatch/core.h"

/* PostgreSQL refuses its row, as `said`: its verdict waits alone, its key behind it. */
void settle_retries_add(struct dispatch *dispatch, struct entry *entry, const struct err *refusal);
/* Gives one that is due to a worker. False: none is. */
bool settle_retries_give_due(struct dispatch *dispatch, int64_t now_ms);
/* All are tried once more, soon. */
void settle_retries_hurry(struct dispatch *dispatch);
/* Whether one is due. */
bool settle_retries_is_due(const struct settler *settler, int64_t now_ms);
/* Its verdict is settled, or lost. */
void settle_retries_end(struct dispatch *dispatch, struct entry *entry);
/* Its crash count cannot be raised, as `said`: it goes back, to be tried again later. */
void settle_retries_put_off(
	struct dispatch *dispatch, struct entry *entry, const struct err *refusal);

#endif
