/*
 * Verdicts that are set aside because PostgreSQL refuses their rows: see settle_retries.c. Part of the settler.
 * Dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_TABLE_SETTLE_RETRIES_H
#define DISPATCH_TABLE_SETTLE_RETRIES_H

#include "dispatch/core.h"

/* Sets a verdict aside. `refusal` is the error of PostgreSQL. */
void settle_retries_add(struct dispatch *dispatch, struct entry *entry, const struct err *refusal);
/* Gives one verdict that is due to a worker. False: none is due, or no memory. */
bool settle_retries_give_due(struct dispatch *dispatch, int64_t now_ms);
/* All of them are due now. */
void settle_retries_hurry(struct dispatch *dispatch);
/* True when one is due. */
bool settle_retries_is_due(const struct settler *settler, int64_t now_ms);
/* The verdict of this entry is settled, or its claim is lost. Does nothing if it was not set aside. */
void settle_retries_end(struct dispatch *dispatch, struct entry *entry);
/* The crash count of a suspect cannot be raised, because of `refusal`. The suspect is not delivered; it goes back to
 * waiting. */
void settle_retries_put_off(
	struct dispatch *dispatch, struct entry *entry, const struct err *refusal);

#endif
