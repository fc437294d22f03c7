/*
 * Computes the watermark update of each partition in a batch. The ingest thread.
 */
#ifndef INGEST_BATCH_WATERMARK_UPDATES_H
#define INGEST_BATCH_WATERMARK_UPDATES_H

#include "ingest/state.h"

/* Fills the updates of the batch to be sent, from the records read so far without those left in
 * `rest`. If another batch is waiting for its COMMIT, they start where its updates end. */
int watermark_updates_build(struct ingest *ingest, struct err *err);
/* The updates are committed. A partition that has read more in the meantime stays touched. */
void watermark_updates_note(struct ingest *ingest, const struct batch *batch);
/* The updates failed or their result is unknown: records the watermark that they would have
 * written, so that a resync can recognize it. */
void watermark_updates_in_doubt(struct ingest *ingest, const struct batch *batch);

#endif
