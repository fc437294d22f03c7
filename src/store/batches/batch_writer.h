/*
 * Runs the transaction of a batch, with the COMMIT: it inserts the rows and moves the watermarks of the partitions.
 *
 * Invariant (G1): the rows of a batch and its watermark update are one transaction, and the update
 * is a compare-and-set on (owner, epoch, next_offset) (rule R1). A watermark therefore never passes
 * a record that is not in the table, whether a process is killed, a record is repeated, or an
 * answer arrives too late.
 *
 * Every function blocks until the server answers, except batch_writer_poll(). One thread: the
 * ingest thread.
 */
#ifndef STORE_BATCHES_BATCH_WRITER_H
#define STORE_BATCHES_BATCH_WRITER_H

#include "model/message/batch.h"
#include "store/pg/db.h"

struct batch_writer;

struct batch_writer_options {
	struct db *db; /* kept */
	int32_t instance;
	int64_t first_low_seq;         /* from instance_register() */
	enum ordering ordering;        /* see batch_writer_set_ordering() */
	void (*committing)(void *arg); /* called before the COMMIT of a batch; NULL: not called */
	void *arg;
};
int batch_writer_new(
	struct batch_writer **out, const struct batch_writer_options *options, struct err *err);
void batch_writer_free(struct batch_writer *writer);
/* Sets the ordering that partitions get when they are taken: the strictest of their streams. */
void batch_writer_set_ordering(struct batch_writer *writer, enum ordering ordering);

/* `moving`: a consumer is being renamed, so an event is also a repeat if it has a row under the earlier name (ADR 40). */
void batch_writer_set_moving(struct batch_writer *writer, bool moving);

enum {
	WRITER_MOVED = 1, /* a watermark differs from the expected value: nothing stored; resync */
	/* the lease of this instance is gone: nothing stored; this instance has ended */
	WRITER_FENCED = 2,
	WRITER_UNKNOWN = 3, /* COMMIT was not answered: stored or not; a resync finds out */
	/* a new row got a seq that is in use, or that is lower than earlier ones: nothing was
	 * stored. `err` says what to do. No batch can be stored until then. */
	WRITER_DAMAGED = 4,
	/* A record without an id has the id of a stored one with another payload. So the stored one belongs to another log
	 * of the topic: nothing was stored, and `other_log_from` of the watermark updates says where. */
	WRITER_OTHER_LOG = 5,
};
/* Sends the batch. Until batch_writer_finish() nothing else may use the connection, and the batch
 * must not change. After a fault there is nothing to finish. */
int batch_writer_start(struct batch_writer *writer, struct batch *batch, struct err *err);
/*
 * Call it before a batch that failed repeatedly with an error that may concern one row
 * (db_error_may_be_row()). The next batch is then bisected as for a bad value, and the rows that
 * PostgreSQL refuses alone become rejects, provided that PostgreSQL accepts another row of the
 * batch. If it accepts none, the database is the cause: the batch fails and nothing is rejected.
 */
void batch_writer_isolate(struct batch_writer *writer);
/* True when batch_writer_finish() would not wait for the rows. Does not block. */
bool batch_writer_poll(struct batch_writer *writer);
/* Waits for the rows and commits. Sets the result of each row and `kept` of each reject. Rows with a
 * value that PostgreSQL cannot store are bisected under savepoints and become rejects (rule R9). If it
 * accepts no row, and not even a row without its values, the database is the cause: the batch fails. */
int batch_writer_finish(struct batch_writer *writer, struct batch *batch, struct err *err);
/*
 * batch_writer_finish() in two halves. When batch_writer_receive() returns 0, the results are
 * known, the COMMIT is sent, and the next batch may start. batch_writer_committed() must follow and
 * waits for the answer. Unless it returns 0, the results are void, and a batch that started in
 * between is not stored either.
 */
int batch_writer_receive(struct batch_writer *writer, struct batch *batch, struct err *err);
int batch_writer_committed(struct batch_writer *writer, struct batch *batch, struct err *err);

#endif
