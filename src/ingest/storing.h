/*
 * One batch into the table: room, placement, the transaction, and what follows from the fate of each
 * row. The ingest thread.
 */
#ifndef INGEST_STORING_H
#define INGEST_STORING_H

#include "ingest/state.h"

/* True when there is anything to store. */
bool storing_has_work(const struct ingest *ingest);
/* Sends the batch at hand, which becomes the flight, and leaves an empty one. Waits for room in the gate (a
 * quarter of a second) and until the server has read it. True: it is on its way, and storing_finish() must
 * follow. */
bool storing_start(struct ingest *ingest);
/* Whether a whole batch may be collected during the flight: what a failure left over is stored first, or it would
 * become more with each flight. */
bool storing_may_go_ahead(const struct ingest *ingest);
/* True as long as storing_finish() would have to wait for the rows. Does not wait itself. */
bool storing_is_waiting(struct ingest *ingest);
/* Waits for the database, and puts what was born claimed into the outbox. When the outcome is a fault or in
 * doubt, the flight goes back in front of the batch at hand and an outage begins. Nothing without a flight. */
void storing_finish(struct ingest *ingest);
/* Whether the batch at hand, which is full, may start before the flight is committed: nothing of the flight waits
 * for its outcome but the watermarks, on which PostgreSQL itself keeps the order (rule R1). */
bool storing_may_follow(const struct ingest *ingest);
/* storing_finish(), with the batch at hand on its way behind the COMMIT: between the two transactions the server
 * waits for nobody. True: that one is flying now. When the COMMIT did not take place, both come back. */
bool storing_follow(struct ingest *ingest);

#endif
