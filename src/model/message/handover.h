/*
 * A handover: what ingest passes to dispatch through the bounded queue after a COMMIT or a rebalance. It contains
 * born-claimed messages, keys that were parked, and partitions that were revoked or acquired. Its owner is the thread
 * that holds it; the queue passes the ownership.
 */
#ifndef MODEL_MESSAGE_HANDOVER_H
#define MODEL_MESSAGE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "model/message/message.h"

/* A key of which the batch parked rows: dispatch must claim them later. */
struct parked_key {
	size_t partition; /* index in the admission */
	uint64_t key_hash;
	int64_t offset; /* the lowest offset that the batch parked */
};

struct handover_item {
	struct message *message; /* owned */
	size_t partition;        /* index in the admission */
};

/* A row of an acquired partition that another instance still holds. Its key is not delivered yet (rule R12). */
struct held_row {
	size_t partition; /* index in the admission */
	int64_t seq;
	int64_t offset;
	uint64_t key_hash;
};

/* The size of each array. */
struct handover_room {
	size_t items;
	size_t parked;
	size_t revoked;
	size_t acquired;
	size_t held;
};

struct handover {
	struct handover_item *items; /* in the order they were stored */
	size_t count;
	struct parked_key *parked;
	size_t parked_count;
	size_t *revoked; /* partitions that this instance does not own any more */
	size_t revoked_count;
	size_t *acquired; /* partitions that are ours from now on */
	size_t acquired_count;
	struct held_row *held; /* rows of the acquired partitions */
	size_t held_count;
	int64_t stored_us;           /* clock_now_us() at COMMIT */
	STAILQ_ENTRY(handover) link; /* for an owner that keeps several */
};

int handover_new(struct handover **out, const struct handover_room *room, struct err *err);
/* Frees the handover with the messages that were not taken out. */
void handover_free(struct handover *handover);

#endif
