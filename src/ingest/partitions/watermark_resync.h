/*
 * Compares the watermarks in memory with those in the table. After an outage ingest reads them under their row
 * locks before it stores anything else, because the result of the last transaction may be unknown (rules R1, R2,
 * R3). Between outages it looks whether an operator or another instance has changed one. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_WATERMARK_RESYNC_H
#define INGEST_PARTITIONS_WATERMARK_RESYNC_H

#include "ingest/state.h"

/* Ends the outage when the time of the next attempt has come and the database answers. */
void watermark_resync_step(struct ingest *ingest);
/* Checks whether an operator or another instance has changed a watermark. */
void watermark_resync_peek(struct ingest *ingest);

#endif
