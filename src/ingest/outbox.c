#include "ingest/outbox.h"

#include <stdlib.h>
#include <string.h>

bool outbox_is_empty(const struct ingest *ingest)
{
	return ingest->outbox.stored == NULL && ingest->outbox.revoked_count == 0;
}

void outbox_store(struct ingest *ingest, struct handover *handover)
{
	if (handover->count == 0 && handover->parked_count == 0) {
		handover_free(handover);
		return;
	}
	ingest->outbox.stored = handover;
}

void outbox_revoke(struct ingest *ingest, size_t index)
{
	struct outbox *outbox = &ingest->outbox;
	size_t room = outbox->revoked_room == 0 ? 16 : outbox->revoked_room * 2;
	size_t *revoked = outbox->revoked;
	struct err err = ERR_INIT;

	if (outbox->revoked_count == outbox->revoked_room) {
		revoked = realloc(outbox->revoked, room * sizeof(*revoked));
		if (revoked == NULL) {
			(void)err_memory(&err);
			ingest_fault(ingest, &err);
			return;
		}
		outbox->revoked = revoked;
		outbox->revoked_room = room;
	}
	revoked[outbox->revoked_count++] = index;
}

static bool push(struct ingest *ingest, struct handover *handover, int64_t timeout_ms)
{
	int r = queue_push(ingest->options.out, handover, timeout_ms);

	if (r == QUEUE_TIMEOUT)
		return false;
	if (r == QUEUE_CLOSED)
		handover_free(handover); /* dispatch has ended: its rows are rescued */
	else
		wake_poke(ingest->options.dispatch_wake);
	return true;
}

static bool push_revoked(struct ingest *ingest, int64_t timeout_ms)
{
	struct outbox *outbox = &ingest->outbox;
	struct handover *handover = NULL;
	struct err err = ERR_INIT;

	if (outbox->revoked_count == 0)
		return true;
	if (handover_new(&handover, 0, 0, outbox->revoked_count, &err) < 0) {
		ingest_fault(ingest, &err);
		return false;
	}
	memcpy(handover->revoked, outbox->revoked,
		outbox->revoked_count * sizeof(*outbox->revoked));
	handover->revoked_count = outbox->revoked_count;
	if (!push(ingest, handover, timeout_ms)) {
		handover_free(handover);
		return false;
	}
	outbox->revoked_count = 0;
	return true;
}

bool outbox_push(struct ingest *ingest, int64_t timeout_ms)
{
	struct outbox *outbox = &ingest->outbox;

	if (outbox->stored != NULL) {
		if (!push(ingest, outbox->stored, timeout_ms))
			return false;
		outbox->stored = NULL;
	}
	return push_revoked(ingest, timeout_ms);
}

void outbox_fini(struct outbox *outbox)
{
	handover_free(outbox->stored);
	free(outbox->revoked);
	*outbox = (struct outbox){ .stored = NULL };
}
