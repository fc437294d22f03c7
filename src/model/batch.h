/*
 * A batch between poll and COMMIT: the messages, rejects and watermark moves that one transaction
 * stores. Plain growing arrays; ingest fills it, store writes it and notes what became of each row,
 * ingest hands the claimed messages on. Owned by the ingest thread.
 */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include "base/err.h"
#include "model/admission.h"
#include "model/log_digest.h"
#include "model/message.h"

enum insert_result {
	ROW_UNKNOWN,   /* not stored yet */
	ROW_CLAIMED,   /* new, and ours: message->seq and delivery_count are set */
	ROW_STORED,    /* new, waiting or parked in the table */
	ROW_DUPLICATE, /* known: nothing stored */
	ROW_CONFLICT,  /* known with another payload: kept in inbox_conflicts */
	ROW_REJECTED,  /* PostgreSQL could not store it: it went to inbox_rejects instead */
};

struct batch_row {
	struct message *message; /* owned by the batch until given away */
	size_t partition;        /* index in the admission */
	struct placement placement;
	enum insert_result result;
};

/* A record that cannot be a message; `message` carries its coordinates, key, headers and payload. */
struct batch_reject {
	struct message *message;
	char reason[512]; /* "label: words"; UTF-8, also where it was cut to fit */
	bool kept;        /* stored now; false: was there already */
	bool refused;     /* one of the rows, which PostgreSQL did not take: goes with that try */
};

/* One partition's watermark move (rule R1). */
struct watermark_update {
	const char *topic;
	int32_t partition;
	int64_t epoch;
	int64_t expected;       /* next_offset before, -1 = NULL */
	int64_t next;           /* next_offset after: never lower than expected */
	int64_t last_offset;    /* last record of the batch, -1 = NULL */
	int64_t last_timestamp; /* its timestamp in ms, -1 = NULL */
	struct log_digest last_digest;
	int64_t read_to; /* ingest: where it had been read to, for this batch */
};

struct batch {
	struct batch_row *rows;
	size_t row_count;
	size_t row_room;
	struct batch_reject *rejects;
	size_t reject_count;
	size_t reject_room;
	struct watermark_update *moves;
	size_t update_count;
	size_t move_room;
	size_t bytes; /* memory of messages and rejects */
};

#define BATCH_INIT                                                                                 \
	{                                                                                          \
		.rows = NULL                                                                       \
	}

/* Frees what the batch still owns; stays usable. */
void batch_clear(struct batch *batch);
void batch_fini(struct batch *batch);
/* Takes the message, also on failure (it is freed then). FAULT_MEMORY. */
int batch_add(struct batch *batch, struct message *message, size_t partition, struct err *err);
int batch_reject(struct batch *batch, struct message *message, const char *reason, struct err *err);
/* Drops the rejects that were rows: nothing of the try that refused them is stored. */
void batch_drop_refused(struct batch *batch);
/* The move of this partition, made when new (all fields but topic and partition zero). NULL: no
 * memory. `topic` is borrowed for the life of the batch. */
struct watermark_update *watermark_update(
	struct batch *batch, const char *topic, int32_t partition);
/* Drops what one partition has below `offset`: it was stored after all. */
void batch_drop_below(struct batch *batch, const char *topic, int32_t partition, int64_t offset);
/* Drops everything of one partition: it was revoked before it could be stored. */
void batch_drop_partition(struct batch *batch, const char *topic, int32_t partition);

/* Leaves at most `most` rows and as many rejects, the first ones; what is behind them goes to `rest`, which
 * is empty, and with it all that its partitions have from there on. FAULT_MEMORY: nothing has moved. */
int batch_split(struct batch *batch, size_t most, struct batch *rest, struct err *err);
/* The lowest offset that a partition has in `rest`; -1 = none. */
int64_t batch_cut(const struct batch *rest, const char *topic, int32_t partition);
/* Puts `rest` back behind the batch. FAULT_MEMORY: `rest` keeps what did not fit. */
int batch_join(struct batch *batch, struct batch *rest, struct err *err);

#endif
