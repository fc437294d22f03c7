/*
 * What ingest gives to dispatch through the bounded queue: messages that were born claimed, and news
 * about the table that only ingest has. Given away whole; freed by whoever holds it last.
 */
#ifndef MODEL_HANDOVER_H
#define MODEL_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/message.h"

/* A key that has rows parked in the table by the last batch: somebody must go on with it later. */
struct parked_key {
	size_t partition; /* index in the gate */
	uint64_t key_hash;
	int64_t offset; /* lowest one parked now */
};

struct handover_item {
	struct message *message; /* owned */
	size_t partition;        /* index in the gate */
};

struct handover {
	struct handover_item *items; /* in the order they were stored */
	size_t count;
	struct parked_key *parked;
	size_t parked_count;
	size_t *revoked; /* partitions that are not ours any more */
	size_t revoked_count;
	int64_t stored_us; /* clock_now_us() at COMMIT */
};

/* All arrays with room for what is asked. */
int handover_new(
	struct handover **out, size_t items, size_t parked, size_t revoked, struct err *err);
/* Frees the messages it still holds, too. */
void handover_free(struct handover *handover);

#endif
