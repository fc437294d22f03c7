/*
 * The watermarks of a batch: where each of its partitions will be once it is stored. The ingest thread.
 */
#ifndef INGEST_WATERMARK_UPDATES_H
#define INGEST_WATERMARK_UPDATES_H

#include "ingest/state.h"

/* Fills the moves of the flight, from what has been read until now; what went to `rest` waits. They begin where
 * those of a batch that has landed end. */
int watermark_updates_build(struct ingest *ingest, struct err *err);
/* They are committed. What has been read meanwhile keeps its partition touched. */
void watermark_updates_note(struct ingest *ingest, const struct batch *batch);
/* Nobody knows whether they are committed, or they are not: notes what they would have made of the watermarks. */
void watermark_updates_in_doubt(struct ingest *ingest, const struct batch *batch);

#endif
