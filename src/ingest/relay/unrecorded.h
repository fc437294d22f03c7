/*
 * The results of events that cannot be recorded yet. Either somebody has locked their rows: an operator who looks before
 * the COMMIT of a discard, or a service that reads FOR UPDATE. Or PostgreSQL refuses to change them: a foreign key of the service,
 * or a trigger that raises an error. The flight of such an event is over. The event is not sent again, nothing else waits, and the
 * relay records it when the lock or the cause is gone. After a fault of the relay the next one reads the rows: an event that was
 * published is then published once more.
 *
 * Sorted by seq. Pure. One thread.
 */
#ifndef INGEST_RELAY_UNRECORDED_H
#define INGEST_RELAY_UNRECORDED_H

#include "store/outbox/relay_rows.h"

#define UNRECORDED_MOST                                                                            \
	10000 /* with so many, the relay sends nothing more until some are recorded */

struct unrecorded_event {
	struct relay_result result;
	char *error; /* owned; that of the result */
	uint64_t topic_hash;
	uint64_t key_hash;
	bool keyed;
	bool fresh; /* its row has never been deferred: no state in the table says that it was seen */
	int64_t again_ms; /* RELAY_RETRY: it may be tried again from this time on */
};

struct unrecorded {
	struct unrecorded_event *items;
	size_t count;
	size_t room;
};

void unrecorded_fini(struct unrecorded *unrecorded);
/* Copies the event, in place of an earlier one with its seq. */
int unrecorded_put(
	struct unrecorded *unrecorded, const struct unrecorded_event *event, struct err *err);
void unrecorded_drop(struct unrecorded *unrecorded, int64_t seq);
/* Drops the events whose result is not left out any more. */
void unrecorded_drop_recorded(struct unrecorded *unrecorded);
/* The place of the first event with this seq or a later one; `count` if there is none. */
size_t unrecorded_find(const struct unrecorded *unrecorded, int64_t seq);
bool unrecorded_has(const struct unrecorded *unrecorded, int64_t seq);
/* How many there are of one kind. `lowest` (may be NULL) receives the first seq of them, or 0. */
size_t unrecorded_count(const struct unrecorded *unrecorded, bool refused, int64_t *lowest);
bool unrecorded_is_full(const struct unrecorded *unrecorded);

#endif
