/*
 * The heads of held keys and topics, as the table has them. After the election the holds are made from them. Later, a head
 * that an operator has discarded is found. Blocks for a statement on the connection of the relay. One thread.
 */
#ifndef INGEST_RELAY_HELD_HEADS_H
#define INGEST_RELAY_HELD_HEADS_H

#include "ingest/relay/flight.h"
#include "store/pg/db.h"

/* Adds a hold for each head. */
int held_heads_load(struct flight *flight, struct db *db, struct err *err);
/* Releases the holds whose head is not deferred any more. Looks at a page of the heads; `position` starts at 0, and the next
 * call goes on there. */
int held_heads_release_gone(
	struct flight *flight, struct db *db, size_t *position, struct err *err);

#endif
