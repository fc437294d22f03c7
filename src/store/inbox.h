/*
 * The ingest side of the store: watermarks and batches.
 *
 * Invariant (G1): the rows of a batch and its watermark update are one transaction, and the update
 * is a compare-and-set on (owner, epoch, next_offset) (rule R1). A watermark therefore never passes
 * a record that is not in the table, whether a process is killed, a record is repeated, or an
 * answer arrives too late.
 *
 * Every function blocks until the server answers, except inbox_poll(). One thread: the ingest
 * thread.
 */
#ifndef STORE_INBOX_H
#define STORE_INBOX_H

#include "model/message/batch.h"
#include "store/pg/db.h"

struct inbox;

struct inbox_options {
	struct db *db; /* kept */
	int32_t instance;
	int64_t first_low_seq; /* from instance_register() */
	enum ordering ordering;
	void (*committing)(void *arg); /* called before the COMMIT of a batch; NULL: not called */
	void *arg;
};
int inbox_new(struct inbox **out, const struct inbox_options *options, struct err *err);
void inbox_free(struct inbox *inbox);

/* Call it once per connection, before the first batch: the server process then keeps the memory of
 * a batch instead of returning it to the operating system each time. */
int inbox_pin_server_memory(struct inbox *inbox, struct err *err);

struct watermark {
	char *topic; /* owned by the list */
	int32_t partition;
	int64_t next_offset; /* -1: none yet */
	int64_t epoch;
	int64_t last_offset;    /* -1: none */
	int64_t last_timestamp; /* ms; -1: none */
	struct log_digest last_digest;
	bool forced; /* inbox.seek() was called: the watermark alone decides the start offset */
	bool mine;   /* the owner is this instance */
};
struct watermarks {
	struct watermark *items;
	size_t count;
};
void watermarks_free(struct watermarks *list);

struct partition_ref {
	const char *topic;
	int32_t partition;
};

/* Acquires partitions that Kafka assigned: sets the owner to this instance and raises the epoch,
 * whoever the owner was (rule R6). INBOX_FENCED: the lease of this instance is gone. A partition
 * whose row is locked is missing in `out`; try again. */
int inbox_take(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* The same for partitions that are assigned to no member. A partition with another live owner is
 * missing in `out`. */
int inbox_adopt(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
typedef void orphan_visit(const char *topic, int32_t partition, bool mine, void *arg);
/* Calls `visit` for partitions that have waiting messages and that had no live owner for age_ms.
 * This instance (`mine`) does not count as a live owner. At most 1,000 partitions, drawn at random. */
int inbox_orphans(
	struct inbox *inbox, int64_t age_ms, orphan_visit *visit, void *arg, struct err *err);
/*
 * Reads the watermarks under their row locks. The lock waits for an earlier transaction of this
 * instance whose answer was lost; its outcome is visible afterwards. Rows that it claimed are given
 * back, because memory does not know them (rule R3). Must be called after every reconnect and after
 * INBOX_MOVED, before the next batch.
 */
int inbox_resync(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* Reads the watermarks of this instance without locks, to detect a change by hand. */
int inbox_peek(struct inbox *inbox, struct watermarks *out, struct err *err);
/* Gives up partitions after a revocation. */
int inbox_release(
	struct inbox *inbox, const struct partition_ref *refs, size_t count, struct err *err);

enum {
	INBOX_MOVED = 1, /* a watermark differs from the expected value: nothing stored; resync */
	/* the lease of this instance is gone: nothing stored; this instance has ended */
	INBOX_FENCED = 2,
	INBOX_UNKNOWN = 3, /* COMMIT was not answered: stored or not; a resync finds out */
	INBOX_DAMAGED =
		/* a new row got a seq that is in use, or that is lower than earlier ones: nothing
		 * was stored. `err` says what to do. No batch can be stored until then. */
	4,
};
/* Sends the batch. Until inbox_finish() nothing else may use the connection, and the batch must not
 * change. After a fault there is nothing to finish. */
int inbox_start(struct inbox *inbox, struct batch *batch, struct err *err);
/*
 * Call it before a batch that failed repeatedly with an error that may concern one row
 * (db_error_may_be_row()). The next batch is then bisected as for a bad value, and the rows that
 * PostgreSQL refuses alone become rejects, provided that PostgreSQL accepts another row of the
 * batch. If it accepts none, the database is the cause: the batch fails and nothing is rejected.
 */
void inbox_isolate(struct inbox *inbox);
/* True when inbox_finish() would not wait for the rows. Does not block. */
bool inbox_poll(struct inbox *inbox);
/* Waits for the rows and commits. Sets the result of each row and `kept` of each reject. Rows that
 * PostgreSQL cannot store are bisected under savepoints and become rejects (rule R9). */
int inbox_finish(struct inbox *inbox, struct batch *batch, struct err *err);
/*
 * inbox_finish() in two halves. When inbox_receive() returns 0, the results are known, the COMMIT
 * is sent, and the next batch may start. inbox_committed() must follow and waits for the answer.
 * Unless it returns 0, the results are void, and a batch that started in between is not stored
 * either.
 */
int inbox_receive(struct inbox *inbox, struct batch *batch, struct err *err);
int inbox_committed(struct inbox *inbox, struct batch *batch, struct err *err);

/* Binds the schema to (cluster id, group id) at the first run (rule R18). FAULT_CONFIG names both
 * when the schema belongs to another pair. */
int inbox_bind(struct db *db, const char *cluster_id, const char *group_id, struct err *err);

/* The same check without binding. `bound` receives whether the schema already belongs to this pair;
 * false: it belongs to none. */
int inbox_check_binding(
	struct db *db, const char *cluster_id, const char *group_id, bool *bound, struct err *err);

#endif
