/*
 * An outage of the database: stops the flow, and schedules the next attempt with growing delays. db_outage_step()
 * makes the attempt. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_DB_OUTAGE_H
#define INGEST_PARTITIONS_DB_OUTAGE_H

#include "ingest/state.h"

/* Begins an outage after a failed statement: stops the flow and schedules the next attempt, later
 * each time. A fault other than FAULT_DATABASE ends consuming. */
void db_outage_begin(struct ingest *ingest, const struct err *err);
/* Begins an outage because a watermark differs from the expected value. The first attempt follows
 * at once. */
void db_outage_doubt(struct ingest *ingest);
/* Records that a statement succeeded: the delays start again from the smallest. */
void db_outage_over(struct ingest *ingest);

#endif
