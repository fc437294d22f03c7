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
#ifndef MODEL_MESSAGE_COMMIT_HANDOVER_H
#define MODEL_MESSAGE_COMMIT_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
