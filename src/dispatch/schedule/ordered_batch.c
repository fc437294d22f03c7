/* See ordered_batch.h. An entry leaves its call when its delivery ends, so what is in a call is open. The entries of a
 * call are in the order of the batch, which has the messages of a lane in the order of the lane. */
#include "dispatch/schedule/ordered_batch.h"

/* False when no other entry can be behind it or before it. */
static bool is_ordered(const struct entry *entry)
{
	return entry->delivery.call != NULL && entry->lane != NULL &&
	       entry->delivery.connection->batch_ordered;
}

struct entry *ordered_batch_next(const struct entry *entry)
{
	struct entry *at = is_ordered(entry) ? TAILQ_NEXT(entry, delivery.call_link) : NULL;

	while (at != NULL && at->lane != entry->lane)
		at = TAILQ_NEXT(at, delivery.call_link);
	return at;
}

struct entry *ordered_batch_first(struct entry *entry)
{
	struct entry *at = is_ordered(entry) ? TAILQ_FIRST(&entry->delivery.call->entries) : entry;

	while (at->lane != entry->lane)
		at = TAILQ_NEXT(at, delivery.call_link);
	return at;
}

bool ordered_batch_finishes(const struct verdict *verdict)
{
	return verdict->status == STATUS_DONE || verdict->status == STATUS_DEAD ||
	       verdict->status == STATUS_SETTLED;
}

enum ordered_answer ordered_batch_behind(const struct verdict *verdict, bool whole)
{
	if (verdict == NULL || verdict->status == STATUS_SKIPPED)
		return ORDERED_SKIPPED;
	if (ordered_batch_finishes(verdict))
		return ORDERED_VIOLATES;
	return whole ? ORDERED_SKIPPED : ORDERED_TRIED;
}
