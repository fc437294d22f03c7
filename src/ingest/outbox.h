/*
 * What dispatch is to be told, kept in its order until dispatch's queue takes it. Nothing is stored while
 * something is left, so this holds one batch at most, and the news of one rebalance. The ingest
 * thread.
 */
#ifndef INGEST_OUTBOX_H
#define INGEST_OUTBOX_H

#include "ingest/state.h"

void outbox_init(struct outbox *outbox);
/* Takes the handover; empty ones are dropped. */
void outbox_add(struct ingest *ingest, struct handover *handover);
/* A partition is not ours any more. */
void outbox_revoke(struct ingest *ingest, size_t index);
/* Offers what is there; waits up to timeout_ms for room. True when nothing is left. */
bool outbox_push(struct ingest *ingest, int64_t timeout_ms);
/* Offers what is there, once a round: while it does not fit and a batch is full, reading holds. When all is told,
 * claims that wait for the last batch may be taken in. */
void outbox_hand_over(struct ingest *ingest);
bool outbox_is_empty(const struct ingest *ingest);
void outbox_fini(struct outbox *outbox);

#endif
