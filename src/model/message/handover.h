/*
 * What ingest passes to dispatch after a COMMIT or a rebalance, through the bounded queue (struct handover), and how
 * dispatch knows which of it is still on the way (struct commit_handover).
 */
#ifndef MODEL_MESSAGE_HANDOVER_H
#define MODEL_MESSAGE_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "model/message/message.h"

/* A key of which the batch parked rows: dispatch must claim them later. */
struct parked_key {
	size_t stream; /* index in the admission */
	uint64_t key_hash;
	int64_t offset; /* the lowest offset that the batch parked */
};

struct handover_item {
	struct message *message; /* owned */
	size_t stream;           /* index in the admission */
};

/* A row of an acquired partition that another instance still holds. Its key is not delivered yet (rule R12). */
struct held_row {
	size_t stream; /* index in the admission */
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

/*
 * Born-claimed messages, keys that were parked, and partitions that were revoked or acquired. Its owner is the thread
 * that holds it; the queue passes the ownership.
 */
struct handover {
	struct handover_item *items; /* in the order they were stored */
	size_t count;
	struct parked_key *parked;
	size_t parked_count;
	size_t *revoked; /* streams of partitions that this instance does not own any more */
	size_t revoked_count;
	size_t *acquired; /* streams of partitions that are ours from now on */
	size_t acquired_count;
	struct held_row *held; /* rows of the acquired streams */
	size_t held_count;
	int64_t stored_us;           /* clock_now_us() at COMMIT */
	STAILQ_ENTRY(handover) link; /* for an owner that keeps several */
};

int handover_new(struct handover **out, const struct handover_room *room, struct err *err);
/* Frees the handover with the messages that were not taken out. */
void handover_free(struct handover *handover);

/*
 * The commit handover: counts the batches that are between their COMMIT and the queue to dispatch (rule R11).
 *
 * Race 1: after the COMMIT, claims see the rows of a batch before dispatch has them. A claim takes the waiting rows
 * of a key and passes over a born-claimed row of the batch, although that row is older. So dispatch admits the rows
 * of a claim only after the batches that had begun their COMMIT when the claim arrived are in the queue.
 *
 * Race 2: the answer to the COMMIT is lost. The rows of the batch, if they were stored, are given back to the table,
 * and can be older than those of a claim that runs. `lost` tells dispatch to return the rows of such a claim as well.
 *
 * Ingest writes, dispatch reads. Any thread; never blocks.
 */
struct commit_handover {
	_Atomic uint64_t begun; /* batches that were sent to be committed */
	_Atomic uint64_t
		ended; /* the batches among them that are in the queue, or were not stored */
	_Atomic uint64_t
		lost; /* the batches among them whose outcome was lost and whose rows were given back */
};

static inline void commit_handover_begin(struct commit_handover *commit_handover)
{
	(void)atomic_fetch_add(&commit_handover->begun, 1);
}

static inline void commit_handover_end(struct commit_handover *commit_handover)
{
	atomic_store(&commit_handover->ended, atomic_load(&commit_handover->begun));
}

/* The outcome of a batch was lost, and its rows wait in the table by now. This does not end the handover, because an
 * earlier batch may not be in the queue yet. */
static inline void commit_handover_lose(struct commit_handover *commit_handover)
{
	(void)atomic_fetch_add(&commit_handover->lost, 1);
}

/* Ingest: true while a batch is between its COMMIT and the queue. */
static inline bool commit_handover_is_open(const struct commit_handover *commit_handover)
{
	return atomic_load(&commit_handover->ended) != atomic_load(&commit_handover->begun);
}

#endif
