/*
 * What ingest gives to dispatch through the bounded queue: messages that were born claimed, and news
 * about the table that only ingest has. Given away whole; freed by whoever holds it last.
 */
#ifndef MODEL_HANDOVER_H
#define MODEL_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "model/message.h"

/* A key that has rows parked in the table by the last batch: somebody must go on with it later. */
struct parked_key {
	size_t partition; /* index in the admission */
	uint64_t key_hash;
	int64_t offset; /* lowest one parked now */
};

struct handover_item {
	struct message *message; /* owned */
	size_t partition;        /* index in the admission */
};

/* A row of a partition just taken that another instance still holds: its key is held back (rule R12). */
struct held_row {
	size_t partition; /* index in the admission */
	int64_t seq;
	int64_t offset;
	uint64_t key_hash;
};

/* How many of each it has room for. */
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
	size_t *revoked; /* partitions that are not ours any more */
	size_t revoked_count;
	size_t *acquired; /* partitions that are ours from now on */
	size_t acquired_count;
	struct held_row *held; /* of these */
	size_t held_count;
	int64_t stored_us;           /* clock_now_us() at COMMIT */
	STAILQ_ENTRY(handover) link; /* for whoever keeps several */
};

int handover_new(struct handover **out, const struct handover_room *room, struct err *err);
/* Frees the messages it still holds, too. */
void handover_free(struct handover *handover);

#endif
