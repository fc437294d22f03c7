/*
 * One batch into the table: room, placement, the transaction, and what follows from the result of each
 * row. The ingest thread.
 */
#ifndef INGEST_STORE_BATCH_H
#define INGEST_STORE_BATCH_H

#include "ingest/state.h"

/* True when there is anything to store. */
bool store_batch_has_work(const struct ingest *ingest);
/* Sends the batch at hand, which becomes the flight, and leaves an empty one. Waits for room in the admission (a
 * quarter of a second) and until the server has read it. True: it is on its way, and store_batch_finish() must
 * follow. */
bool store_batch_start(struct ingest *ingest);
/* Whether a whole batch may be collected during the flight: what a failure left over is stored first, or it would
 * become more with each flight. */
bool store_batch_may_go_ahead(const struct ingest *ingest);
/* True as long as store_batch_finish() would have to wait for the rows. Does not wait itself. */
bool store_batch_is_waiting(struct ingest *ingest);
/* Waits for the database, and puts what was born claimed into the outbox. When the outcome is a fault or in
 * doubt, the flight goes back in front of the batch at hand and an outage begins. Nothing without a flight. */
void store_batch_finish(struct ingest *ingest);
/* Whether the batch at hand, which is full, may start before the flight is committed: nothing of the flight waits
 * for its outcome but the watermarks, on which PostgreSQL itself keeps the order (rule R1). */
bool store_batch_may_follow(const struct ingest *ingest);
/* store_batch_finish(), with the batch at hand on its way behind the COMMIT: between the two transactions the server
 * waits for nobody. True: that one is flying now. When the COMMIT did not take place, both come back. */
bool store_batch_follow(struct ingest *ingest);

#endif
