/*
 * Verdicts that are set aside: PostgreSQL refuses to update their rows while it updates others. The cause is a
 * trigger of the user that raises an error, or a damaged page. Such a verdict is tried again alone, with growing
 * pauses and without a limit. Meanwhile the others are settled.
 *
 * The message stays claimed. After `done` its lane continues, but at most inbox.max_unsettled_per_key messages are
 * unsettled: the verdicts of the later ones wait for this one. After another verdict the lane waits. Dispatch thread
 * only; nothing here blocks.
 */
#ifndef DISPATCH_TABLE_SETTLE_REFUSED_VERDICTS_H
#define DISPATCH_TABLE_SETTLE_REFUSED_VERDICTS_H

#include "base/err.h"
#include "dispatch/order/entry.h"

struct settler;
struct table;

/* Sets a verdict aside. `refusal` is the error of PostgreSQL. */
void refused_verdicts_add(struct table *table, struct entry *entry, const struct err *refusal);
/* Takes one verdict that is due. NULL: none is due. */
struct entry *refused_verdicts_take_due(struct settler *settler, int64_t now_ms);
/* Puts back the verdict that was taken last: there is no memory to settle it now. */
void refused_verdicts_put_back(struct settler *settler, struct entry *entry);
/* All of them are due now. */
void refused_verdicts_hurry(struct settler *settler);
/* True when one is due. */
bool refused_verdicts_is_due(const struct settler *settler, int64_t now_ms);
/* The verdict of this entry is settled, or its claim is lost. Does nothing if it was not set aside. */
void refused_verdicts_end(struct table *table, struct entry *entry);
/* The crash count of a suspect cannot be raised, because of `refusal`. The suspect is not delivered; it goes back to
 * waiting. */
void refused_verdicts_put_off(struct table *table, struct entry *entry, const struct err *refusal);

#endif
