/* What a collector of spans hears of ingest. */
#ifndef INGEST_TRACING_H
#define INGEST_TRACING_H

#include "ingest/state.h"

/* A flight is in the table: tells of each of its messages that it was received, and that it was stored. One
 * branch when tracing is off. Before the messages are handed over. The ingest thread. */
void tracing_stored(struct ingest *ingest, const struct flight *flight);

#endif
