/*
 * Creates the trace spans of ingest. The ingest thread.
 */
#ifndef INGEST_TRACING_H
#define INGEST_TRACING_H

#include "ingest/state.h"

/* Adds the spans "received" and "stored" for each message of a stored batch. Must be called before
 * the messages are handed over. Costs one branch when tracing is off. */
void tracing_stored(struct ingest *ingest, const struct sent_batch *sent);

#endif
