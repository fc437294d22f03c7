/*
 * A batch: the messages, rejects and watermark updates that one transaction stores. Ingest fills it, store writes it
 * and notes the result of each row, and ingest passes the claimed messages to dispatch. Growing arrays, no I/O. It
 * belongs to the ingest thread.
 */
#ifndef MODEL_MESSAGE_BATCH_H
#define MODEL_MESSAGE_BATCH_H

#include "base/err.h"
#include "model/admission/admission.h"
#include "model/identity/topic_log.h"
#include "model/message/message.h"

enum insert_result {
	ROW_UNKNOWN,   /* not stored yet */
	ROW_CLAIMED,   /* new and born claimed: message->seq and delivery_count are set */
	ROW_STORED,    /* new, waiting or parked in the table */
	ROW_DUPLICATE, /* in the table already: nothing stored */
	ROW_CONFLICT,  /* in the table with another payload: stored in inbox_conflicts */
	ROW_REJECTED,  /* PostgreSQL refused it: stored in inbox_rejects */
};

struct batch_row {
	struct message *message; /* owned by the batch until given away */
	size_t stream;           /* index in the admission */
	bool again;              /* of the same record as the row before, for another consumer */
	struct placement placement;
	bool held; /* an earlier record of its lane is a reject that holds it back. Set by the store */
	enum insert_result result;
};

/* A record that cannot be a message; `message` carries its coordinates, key, headers and payload. */
struct batch_reject {
	struct message *message;
	char reason[512]; /* "label: words"; UTF-8, also where it was cut to fit */
	bool kept;        /* stored now; false: was there already */
	bool refused;     /* one of the rows, which PostgreSQL did not take: goes with that try */
	bool holds;       /* later records of its lane become rejects, too, until it is a message */
};

/* How the batch changes the watermark of one partition (rule R1). */
struct watermark_update {
	const char *topic;
	int32_t partition;
	int64_t epoch;
	int64_t expected;       /* next_offset before, -1 = NULL */
	int64_t next;           /* next_offset after: never lower than expected */
	int64_t last_offset;    /* last record of the batch, -1 = NULL */
	int64_t last_timestamp; /* its timestamp in ms, -1 = NULL */
	struct log_digest last_digest;
	struct topic_log log; /* after */
	/* a record without an id is stored with another payload: the lowest offset of these; -1 = none. Set by
	 * the store, which then stores nothing. */
	int64_t other_log_from;
	bool may_hold; /* the partition may have rejects that hold records back. The store finds out */
	int64_t read_to; /* ingest: the offset up to which the partition was read for this batch */
};

struct batch {
	struct batch_row *rows;
	size_t row_count;
	size_t row_room;
	struct batch_reject *rejects;
	size_t reject_count;
	size_t reject_room;
	struct watermark_update *updates;
	size_t update_count;
	size_t update_room;
	size_t bytes; /* memory of messages and rejects */
};

#define BATCH_INIT                                                                                 \
	{                                                                                          \
		.rows = NULL                                                                       \
	}

/* Frees everything that the batch still owns, and empties it for reuse. */
void batch_clear(struct batch *batch);
void batch_fini(struct batch *batch);
/* These take ownership of the message, also on failure: then it is freed. FAULT_MEMORY. */
int batch_add(struct batch *batch, struct message *message, size_t stream, struct err *err);
/* Adds the record of the last row for one more consumer. */
int batch_add_again(struct batch *batch, struct message *message, size_t stream, struct err *err);
int batch_reject(struct batch *batch, struct message *message, const char *reason, struct err *err);
/* Drops the rejects that were made of refused rows. The transaction in which they were refused is not committed. */
void batch_drop_refused(struct batch *batch);
/* Gives a row another event id. FAULT_MEMORY: nothing has changed. */
int batch_rename(struct batch *batch, size_t row, const char *event_id, struct err *err);
/* The watermark update of this partition. A new one has all fields zero except topic and partition. NULL: no memory.
 * `topic` is borrowed and must live as long as the batch. */
struct watermark_update *watermark_update(
	struct batch *batch, const char *topic, int32_t partition);
/* Drops the records of one partition below `offset`, because they are stored already. */
void batch_drop_below(struct batch *batch, const char *topic, int32_t partition, int64_t offset);
/* Drops all records of one partition, because it was revoked before they were stored. */
void batch_drop_partition(struct batch *batch, const char *topic, int32_t partition);

/* Keeps at most the first `most` rows, and the other rows of the last record, and the first `most` rejects. The others move to `rest`, which must be empty.
 * With a record, all later records of its partition move as well, so that each partition is cut at one offset.
 * FAULT_MEMORY: nothing has moved. */
int batch_split(struct batch *batch, size_t most, struct batch *rest, struct err *err);
/* The lowest offset of a partition in `rest`; -1 = it has none. */
int64_t batch_cut(const struct batch *rest, const char *topic, int32_t partition);
/* Appends `rest` to the batch again. FAULT_MEMORY: nothing has moved. */
int batch_join(struct batch *batch, struct batch *rest, struct err *err);

#endif
