/*
 * An ordered batch can hold several messages of one lane, in their order (rule R26). The handler processes them in this
 * order and stops at the first one that it does not finish. The messages behind that one were not tried, so they go
 * back to the table and nothing is counted.
 * These functions decide which entries are behind another one, and what an answer for them means. Pure. Dispatch
 * thread only.
 */
#ifndef DISPATCH_SCHEDULE_ORDERED_BATCH_H
#define DISPATCH_SCHEDULE_ORDERED_BATCH_H

#include "dispatch/schedule/schedule.h"

/* The next open entry of the same lane in the same ordered batch, or NULL. */
struct entry *ordered_batch_next(const struct entry *entry);
/* The first open entry of the same lane in the same ordered batch. It may be the entry itself. */
struct entry *ordered_batch_first(struct entry *entry);

/* True when the handler goes on with the next message of the lane after this verdict. */
bool ordered_batch_finishes(const struct verdict *verdict);

enum ordered_answer {
	ORDERED_SKIPPED, /* the message was not tried */
	ORDERED_TRIED,   /* the verdict counts as it is */
	ORDERED_VIOLATES /* the same, and the handler finished the message out of order */
};
/* What an answer means for an entry that is behind an unfinished one. NULL: the answer leaves the entry out.
 * `whole`: the verdict is for all entries of the batch. */
enum ordered_answer ordered_batch_behind(const struct verdict *verdict, bool whole);

#endif
