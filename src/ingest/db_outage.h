/*
 * Handles an outage of the database. Ingest stops the flow and retries with growing delays. After
 * the reconnect it reads the watermarks under their row locks before it stores anything else,
 * because the result of the last transaction may be unknown (rules R1, R2, R3). The ingest thread.
 */
#ifndef INGEST_DB_OUTAGE_H
#define INGEST_DB_OUTAGE_H

#include "ingest/state.h"

/* Begins an outage after a failed statement: stops the flow and schedules the next attempt, later
 * each time. A fault other than FAULT_DATABASE ends consuming. */
void db_outage_begin(struct ingest *ingest, const struct err *err);
/* Begins an outage because a watermark differs from the expected value. The first attempt follows
 * at once. */
void db_outage_doubt(struct ingest *ingest);
/* Ends the outage when the time of the next attempt has come and the database answers. */
void db_outage_step(struct ingest *ingest);
/* Records that a statement succeeded: the delays start again from the smallest. */
void db_outage_over(struct ingest *ingest);
/* Checks whether an operator or another instance has changed a watermark. */
void db_outage_peek(struct ingest *ingest);

#endif
