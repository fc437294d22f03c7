/*
 * The database away and back: what was in doubt is looked up behind the locks of its rows before
 * anything else is stored (rules R1, R2, R3). The ingest thread.
 */
#ifndef INGEST_DB_OUTAGE_H
#define INGEST_DB_OUTAGE_H

#include "ingest/state.h"

/* A statement failed: nothing flows, nothing is sent until the next try, later each time. Anything but
 * FAULT_DATABASE ends consuming. */
void db_outage_begin(struct ingest *ingest, const struct err *err);
/* A watermark was not where it was left: as an outage, but tried again at once. */
void db_outage_doubt(struct ingest *ingest);
/* Ends the outage when its time has come and the database answers. */
void db_outage_step(struct ingest *ingest);
/* A statement of ours succeeded. */
void db_outage_over(struct ingest *ingest);
/* Looks whether somebody moved a watermark by hand. */
void db_outage_peek(struct ingest *ingest);

#endif
