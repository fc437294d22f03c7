/*
 * Implements handover_queue.h.
 */
#include "ingest/handover_queue.h"
#include "ingest/partitions/flow.h"

#include "base/faultpoint.h"

#define HANDOVER_MS 200

void handover_queue_init(struct handover_queue *queue)
{
	STAILQ_INIT(&queue->waiting);
}

bool handover_queue_is_empty(const struct ingest *ingest)
{
	return STAILQ_EMPTY(&ingest->handovers.waiting);
}

void handover_queue_add(struct ingest *ingest, struct handover *handover)
{
	if (handover->count == 0 && handover->parked_count == 0 && handover->revoked_count == 0 &&
		handover->acquired_count == 0)
		handover_free(handover);
	else
		STAILQ_INSERT_TAIL(&ingest->handovers.waiting, handover, link);
}

void handover_queue_revoke(struct ingest *ingest, const struct audience *audience)
{
	const struct handover_room room = { .revoked = audience->count };
	struct handover *handover = NULL;
	struct err err = ERR_INIT;

	if (handover_new(&handover, &room, &err) < 0) {
		ingest_fault(ingest, &err);
		return;
	}
	for (size_t i = 0; i < audience->count; i++)
		handover->revoked[handover->revoked_count++] = audience->members[i].stream;
	handover_queue_add(ingest, handover);
}

bool handover_queue_push(struct ingest *ingest, int64_t timeout_ms)
{
	struct handover *handover;
	int r;

	while ((handover = STAILQ_FIRST(&ingest->handovers.waiting)) != NULL) {
		/* After the push the handover belongs to dispatch, including its link. */
		STAILQ_REMOVE_HEAD(&ingest->handovers.waiting, link);
		FAULT_POINT("before_queue");
		r = queue_push(ingest->options.out, handover, timeout_ms);
		if (r == QUEUE_TIMEOUT) {
			STAILQ_INSERT_HEAD(&ingest->handovers.waiting, handover, link);
			return false;
		}
		if (r == QUEUE_CLOSED)
			/* dispatch has ended; another instance rescues the rows */
			handover_free(handover);
		else
			wake_poke(ingest->options.dispatch_wake);
		FAULT_POINT("after_queue");
	}
	return true;
}

/* Everything stored so far is in the queue, so dispatch may accept claims that wait for it. If the
 * result of the last COMMIT is unknown, such a claim could overtake rows that the resync gives
 * back. */
static void end_commit_handover(struct ingest *ingest)
{
	if (ingest->storing.commit_unknown ||
		!commit_handover_is_open(ingest->options.commit_handover))
		return;
	commit_handover_end(ingest->options.commit_handover);
	wake_poke(ingest->options.dispatch_wake);
}

void handover_queue_hand_over(struct ingest *ingest, bool full)
{
	if (handover_queue_is_empty(ingest)) {
		end_commit_handover(ingest);
		return;
	}
	if (handover_queue_push(ingest, HANDOVER_MS)) {
		end_commit_handover(ingest);
		flow_go_on(ingest, STOP_HANDOVER);
	} else if (full) {
		flow_stop_all(ingest, STOP_HANDOVER);
	}
}

void handover_queue_fini(struct handover_queue *queue)
{
	struct handover *handover;

	while ((handover = STAILQ_FIRST(&queue->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&queue->waiting, link);
		handover_free(handover);
	}
}
