/*
 * The ingest side of the store: watermarks and batches. One thread: the ingest thread's.
 *
 * Invariant (G1): a batch's rows and its watermark move are one transaction, and the move is a
 * compare-and-set on (owner, epoch, next_offset) (rule R1). So a watermark never passes a record
 * that is not in the table, whatever is killed, repeated, or answered too late.
 */
#ifndef STORE_INBOX_H
#define STORE_INBOX_H

#include "model/batch.h"
#include "store/db.h"

struct inbox;

struct inbox_options {
	struct db *db; /* kept */
	int32_t instance;
	int64_t first_low_seq; /* from instance_register() */
	enum ordering ordering;
	void (*committing)(
		void *arg); /* before the COMMIT of a batch; NULL: nobody wants to know */
	void *arg;
};
int inbox_new(struct inbox **out, const struct inbox_options *options, struct err *err);
void inbox_free(struct inbox *inbox);

/* Once a connection, before the first batch: its server process keeps the memory that a batch takes. */
int inbox_keep_memory(struct inbox *inbox, struct err *err);

struct watermark {
	char *topic; /* owned by the list */
	int32_t partition;
	int64_t next_offset; /* -1: none yet */
	int64_t epoch;
	int64_t last_offset;    /* -1: none */
	int64_t last_timestamp; /* ms; -1: none */
	struct log_digest last_digest;
	bool forced; /* inbox.seek() was called: the watermark alone decides */
	bool mine;   /* owner is this instance */
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

/* Takes partitions Kafka assigned: owner = me, epoch + 1, unconditionally (rule R6) but for INBOX_FENCED:
 * our own lease is gone. One that is locked now is missing in `out`: try again. */
int inbox_take(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* The same for partitions that nobody is assigned, as far as no other live instance is their owner; the
 * others are missing in `out`. */
int inbox_adopt(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
typedef void orphan_visit(const char *topic, int32_t partition, bool mine, void *arg);
/* Calls `visit` for partitions of which messages wait and which had no live owner but this instance (`mine`)
 * for so long; at most 1,000 of them, drawn at random. */
int inbox_orphans(
	struct inbox *inbox, int64_t age_ms, orphan_visit *visit, void *arg, struct err *err);
/* Reads watermarks behind their locks: an earlier transaction of ours on them is over then, and what
 * it may have claimed unheard (lost answer to COMMIT) is given back (rule R3). To be called after
 * every reconnect and after INBOX_MOVED, before the next batch. */
int inbox_resync(struct inbox *inbox, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* Reads the own watermarks without locks: did somebody move one? */
int inbox_peek(struct inbox *inbox, struct watermarks *out, struct err *err);
/* Gives partitions up (revoked). */
int inbox_release(
	struct inbox *inbox, const struct partition_ref *refs, size_t count, struct err *err);

enum {
	INBOX_MOVED = 1,   /* a watermark was not where we left it: nothing stored; resync */
	INBOX_FENCED = 2,  /* our lease is gone: nothing stored; this id is over */
	INBOX_UNKNOWN = 3, /* COMMIT was not answered: stored or not; resync tells */
	INBOX_DAMAGED =
		4, /* a new row took a number that is used, or a lower one than the rows before it: nothing stored,
			    * `err` says what to do; no batch can be stored before that is done */
};
/* Sends the batch; nothing else is asked of the connection, and the batch stays as it is, until
 * inbox_finish(). After a fault there is nothing to finish. */
int inbox_start(struct inbox *inbox, struct batch *batch, struct err *err);
/* The next batch has failed often, for a reason that may be one row's (db_error_may_be_row()). It is halved as for a
 * value, and the rows that PostgreSQL refuses alone become rejects, provided that it takes another row of the batch: when
 * it takes none, the database is what fails, and so does the batch, with nothing rejected. */
void inbox_isolate(struct inbox *inbox);
/* Whether inbox_finish() would not have to wait for the rows; does not wait itself. */
bool inbox_look(struct inbox *inbox);
/* Waits for the rows, commits, and sets the result of each row, `kept` of each reject. Rows PostgreSQL cannot
 * take are bisected out under savepoints and become rejects (rule R9). */
int inbox_finish(struct inbox *inbox, struct batch *batch, struct err *err);
/* The same in two halves: after the first, if it returns 0, the results are known, COMMIT is on its way, and the next
 * batch may start; the second, which must follow, waits for the answer. Unless that is 0 the results are void and a
 * batch that started in between is not stored. */
int inbox_land(struct inbox *inbox, struct batch *batch, struct err *err);
int inbox_committed(struct inbox *inbox, struct batch *batch, struct err *err);

/* Binds the schema to (cluster id, group id) at the first run (rule R18). FAULT_CONFIG naming both
 * when it belongs to another. */
int inbox_bind(struct db *db, const char *cluster_id, const char *group_id, struct err *err);

/* The same without binding it: `bound` tells whether it belongs to them already, or to nobody. */
int inbox_check_binding(
	struct db *db, const char *cluster_id, const char *group_id, bool *bound, struct err *err);

#endif
