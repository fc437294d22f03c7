#include "ingest/outbox.h"

#include "base/faultpoint.h"
#include "ingest/collect.h"

#define HANDOVER_MS 200

void outbox_init(struct outbox *outbox)
{
	STAILQ_INIT(&outbox->waiting);
}

bool outbox_is_empty(const struct ingest *ingest)
{
	return STAILQ_EMPTY(&ingest->outbox.waiting);
}

static bool says_nothing(const struct handover *handover)
{
	return handover->count == 0 && handover->parked_count == 0 &&
	       handover->revoked_count == 0 && handover->taken_count == 0;
}

void outbox_add(struct ingest *ingest, struct handover *handover)
{
	if (says_nothing(handover))
		handover_free(handover);
	else
		STAILQ_INSERT_TAIL(&ingest->outbox.waiting, handover, link);
}

void outbox_revoke(struct ingest *ingest, size_t index)
{
	const struct handover_room room = { .revoked = 1 };
	struct handover *handover = NULL;
	struct err err = ERR_INIT;

	if (handover_new(&handover, &room, &err) < 0) {
		ingest_fault(ingest, &err);
		return;
	}
	handover->revoked[handover->revoked_count++] = index;
	outbox_add(ingest, handover);
}

bool outbox_push(struct ingest *ingest, int64_t timeout_ms)
{
	struct handover *handover;
	int r;

	while ((handover = STAILQ_FIRST(&ingest->outbox.waiting)) != NULL) {
		/* Once pushed it is dispatch's, its link too. */
		STAILQ_REMOVE_HEAD(&ingest->outbox.waiting, link);
		FAULT_POINT("before_queue");
		r = queue_push(ingest->options.out, handover, timeout_ms);
		if (r == QUEUE_TIMEOUT) {
			STAILQ_INSERT_HEAD(&ingest->outbox.waiting, handover, link);
			return false;
		}
		if (r == QUEUE_CLOSED)
			handover_free(handover); /* dispatch has ended: its rows are rescued */
		else
			wake_poke(ingest->options.dispatch_wake);
		FAULT_POINT("after_queue");
	}
	return true;
}

/* What was stored last is in the queue: a claim that waits for it may be taken in. */
static void let_claims_in(struct ingest *ingest)
{
	if (ingest->store_unheard || !passage_is_open(ingest->options.passage))
		return;
	passage_end(ingest->options.passage);
	wake_poke(ingest->options.dispatch_wake);
}

void outbox_hand_over(struct ingest *ingest)
{
	if (outbox_is_empty(ingest)) {
		let_claims_in(ingest);
		return;
	}
	if (outbox_push(ingest, HANDOVER_MS)) {
		let_claims_in(ingest);
		ingest_unhold(ingest, HOLD_OUTBOX);
	} else if (collect_is_full(ingest)) {
		ingest_hold(ingest, HOLD_OUTBOX);
	}
}

void outbox_fini(struct outbox *outbox)
{
	struct handover *handover;

	while ((handover = STAILQ_FIRST(&outbox->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&outbox->waiting, link);
		handover_free(handover);
	}
}
