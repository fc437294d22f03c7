/*
 * Decides when a batch is sent, and handles the outcome: waits for memory budget, decides the placement
 * of each row, and applies the result of each row. store/batches/batch_writer.h runs the transaction.
 *
 * The transaction is sent in two pipelines (ADR 10), so that the thread can collect the next batch
 * while PostgreSQL works. Between store_batch_start() and store_batch_finish() it must do nothing
 * else. The ingest thread.
 */
#ifndef INGEST_BATCH_STORE_BATCH_H
#define INGEST_BATCH_STORE_BATCH_H

#include "ingest/state.h"

/* True when there are rows, rejects or watermark updates to store. */
bool store_batch_has_work(const struct ingest *ingest);
/* Sends the current batch and leaves an empty one. Waits up to two seconds for memory budget, as long
 * as handlers keep finishing messages, and until the server has read the data. True: the batch was sent, and
 * store_batch_finish() must follow. */
bool store_batch_start(struct ingest *ingest);
/* True when a whole batch may be collected while one is sent. After a failure the leftover rows
 * must be stored first; otherwise they would grow with each batch. */
bool store_batch_may_collect_ahead(const struct ingest *ingest);
/* True while store_batch_finish() would have to wait for the rows. Does not block. */
bool store_batch_is_waiting(struct ingest *ingest);
/* Waits for the database and hands the born-claimed messages to dispatch. After a fault, or when
 * the result is unknown, the batch is put back in front of the current batch, and an outage begins.
 * Does nothing when no batch is sent. */
void store_batch_finish(struct ingest *ingest);
/* True when the current batch, which is full, may be sent before the previous one is committed. It
 * depends on that one only by its watermarks, and PostgreSQL's row locks keep their order (rule
 * R1). */
bool store_batch_may_follow(const struct ingest *ingest);
/* Like store_batch_finish(), but sends the current batch right behind the COMMIT, so that the
 * server does not idle between the two transactions. True: the new batch is sent. If the COMMIT
 * fails, both batches are put back. */
bool store_batch_follow(struct ingest *ingest);

#endif
