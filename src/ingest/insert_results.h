/*
 * What follows from the insert result of each row: to dispatch, budget back, counters, log lines. The
 * ingest thread, right after COMMIT.
 */
#ifndef INGEST_INSERT_RESULTS_H
#define INGEST_INSERT_RESULTS_H

#include "ingest/state.h"

/* Moves claimed messages and parked keys into the flight's handover, which has room for all rows. Cannot fail. */
void insert_results_apply(struct ingest *ingest, struct flight *flight);

#endif
