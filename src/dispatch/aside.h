/* Verdicts that wait alone: see aside.c. The dispatch thread. */
#ifndef DISPATCH_ASIDE_H
#define DISPATCH_ASIDE_H

#include "dispatch/core.h"

/* PostgreSQL refuses its row, as `said`: its verdict waits alone, its key behind it. */
void aside_add(struct dispatch *dispatch, struct entry *entry, const struct err *said);
/* Gives one that is due to a worker. False: none is. */
bool aside_give_due(struct dispatch *dispatch, int64_t now_ms);
/* All are tried once more, soon. */
void aside_hurry(struct dispatch *dispatch);
/* Whether one is due. */
bool aside_is_due(const struct settler *settler, int64_t now_ms);
/* Its verdict is settled, or lost. */
void aside_end(struct dispatch *dispatch, struct entry *entry);
/* Its crash count cannot be raised, as `said`: it goes back, to be tried again later. */
void aside_put_off(struct dispatch *dispatch, struct entry *entry, const struct err *said);

#endif
