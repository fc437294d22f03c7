/*
 * What dispatch is to be told, kept in its order until dispatch's queue takes it. Nothing is stored while
 * something is left, so this holds one batch at most, and the news of one rebalance. The ingest
 * thread.
 */
#ifndef INGEST_HANDOVER_QUEUE_H
#define INGEST_HANDOVER_QUEUE_H

#include "ingest/state.h"

void handover_queue_init(struct handover_queue *queue);
/* Takes the handover; empty ones are dropped. */
void handover_queue_add(struct ingest *ingest, struct handover *handover);
/* A partition is not ours any more. */
void handover_queue_revoke(struct ingest *ingest, size_t index);
/* Offers what is there; waits up to timeout_ms for room. True when nothing is left. */
bool handover_queue_push(struct ingest *ingest, int64_t timeout_ms);
/* Offers what is there, once a round: while it does not fit and a batch is full, reading holds. When all is told,
 * claims that wait for the last batch may be taken in. */
void handover_queue_hand_over(struct ingest *ingest);
bool handover_queue_is_empty(const struct ingest *ingest);
void handover_queue_fini(struct handover_queue *queue);

#endif
