/*
 * Keeps handovers in order until dispatch's bounded queue accepts them. No batch is stored while a
 * handover is left, so the queue holds at most one batch and the changes of one rebalance. The
 * ingest thread.
 */
#ifndef INGEST_HANDOVER_QUEUE_H
#define INGEST_HANDOVER_QUEUE_H

#include "ingest/state.h"

void handover_queue_init(struct handover_queue *queue);
/* Takes the handover; an empty one is freed. */
void handover_queue_add(struct ingest *ingest, struct handover *handover);
/* Adds the revocation of a partition with its streams. */
void handover_queue_revoke(struct ingest *ingest, const struct audience *audience);
/* Offers all handovers to dispatch; waits up to timeout_ms for room. True when none is left. */
bool handover_queue_push(struct ingest *ingest, int64_t timeout_ms);
/* Runs once a round: offers all handovers. If they do not fit and a batch is full, the flow is
 * stopped. When all are delivered, dispatch may accept claims that wait for the last batch (rule R11). */
void handover_queue_hand_over(struct ingest *ingest, bool full);
bool handover_queue_is_empty(const struct ingest *ingest);
void handover_queue_fini(struct handover_queue *queue);

#endif
