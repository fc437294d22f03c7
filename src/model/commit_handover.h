/*
 * From COMMIT into the queue: a batch that is committed is seen by claims before dispatch has it. A claim
 * takes what waits of a key and may step over a row of the batch that was born claimed; so the rows of a
 * claim are taken in only while no batch is on this way, or once it has come out of it (rule R11). When
 * nobody heard whether the batch was stored, its rows may be given back behind the claim's: then the
 * claim's rows go back as well.
 *
 * Ingest writes, dispatch reads; any thread.
 */
#ifndef MODEL_COMMIT_HANDOVER_H
#define MODEL_COMMIT_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct commit_handover {
	_Atomic uint64_t begun; /* batches about to be committed, or committed */
	_Atomic uint64_t ended; /* of them those that are in the queue, or were not stored */
	_Atomic uint64_t lost;  /* of them those nobody heard of; those stored were given back */
};

static inline void commit_handover_begin(struct commit_handover *commit_handover)
{
	(void)atomic_fetch_add(&commit_handover->begun, 1);
}

static inline void commit_handover_end(struct commit_handover *commit_handover)
{
	atomic_store(&commit_handover->ended, atomic_load(&commit_handover->begun));
}

/* Whether it was stored was not heard; what it held waits in the table by now. It has not ended: one before it may
 * still be on its way into the queue. */
static inline void commit_handover_lose(struct commit_handover *commit_handover)
{
	(void)atomic_fetch_add(&commit_handover->lost, 1);
}

/* Ingest: is a batch on its way? */
static inline bool commit_handover_is_open(const struct commit_handover *commit_handover)
{
	return atomic_load(&commit_handover->ended) != atomic_load(&commit_handover->begun);
}

#endif
