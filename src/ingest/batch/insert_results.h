/*
 * Applies the insert result of each row after the COMMIT: hands messages to dispatch, releases
 * memory budget, counts, logs and adds the spans. The ingest thread.
 */
#ifndef INGEST_BATCH_INSERT_RESULTS_H
#define INGEST_BATCH_INSERT_RESULTS_H

#include "ingest/state.h"

/* Moves claimed messages and parked keys into the handover of the batch, which has room for all
 * rows. Cannot fail, because after the COMMIT nothing may keep a claimed row from dispatch. */
void insert_results_apply(struct ingest *ingest, struct sent_batch *sent);

#endif
