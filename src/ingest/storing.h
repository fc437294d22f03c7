/*
 * One batch into the table: room, placement, the transaction, and what follows from the fate of each
 * row. The ingest thread.
 */
#ifndef INGEST_STORING_H
#define INGEST_STORING_H

#include "ingest/state.h"

/* True when there is anything to store. */
bool storing_has_work(const struct ingest *ingest);
/* Stores the batch at hand and puts what was born claimed into the outbox, which must be empty of
 * stored messages. When the outcome is a fault or in doubt, the batch stays and an outage begins.
 * Waits for room in the gate (a quarter of a second) and for the database. */
void storing_step(struct ingest *ingest);

#endif
