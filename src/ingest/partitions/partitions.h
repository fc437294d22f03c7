/*
 * The partitions that this instance has seen, from the view of the ingest thread. A partition is
 * created when it is seen first and never removed: after a revocation it is ABSENT until Kafka
 * assigns it again. One thread.
 *
 *	          Kafka         row taken, search      offset decided
 *	 ABSENT ────────▶ ASSIGNED ──────────▶ TAKEN ─────────────▶ READING
 *	    ▲                                   ▲  ▲                 │ │
 *	    │ revoked (from any)                │  └─ moved by hand, ┘ │ another owner
 *	    │                                   │     log reset        ▼
 *	    ├───────────────────────────────────┴─────────────────  FOREIGN
 *	    └── taken by another, no handler ── ADOPTED: no member is assigned, or only Kafka revoked it
 *
 * Invariants:
 * - Only a READING partition with `flowing` accepts records.
 * - Every record below `read.next` is in the table or in the current batch.
 * - Only a TAKEN partition has a `query`.
 * - `table` is the last known content of the row in inbox_offsets.
 * - `offsets.stored` is at most `read.next`, and never above what a COMMIT has confirmed.
 */
#ifndef INGEST_PARTITIONS_PARTITIONS_H
#define INGEST_PARTITIONS_PARTITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "ingest/kafka/partition_offset.h"
#include "model/admission/admission.h"
#include "model/admission/partition_index.h"
#include "model/identity/identity.h"
#include "model/routing/consumers.h"
#include "report/metrics.h"
#include "store/batches/watermarks.h"

enum partition_state {
	PARTITION_ABSENT,   /* not owned */
	PARTITION_ASSIGNED, /* assigned by Kafka; its row is not taken yet */
	PARTITION_TAKEN,    /* its row names this instance; the start offset is not decided yet */
	PARTITION_READING,  /* is read, or can be read from `next` */
	PARTITION_FOREIGN,  /* another instance took the row; Kafka has not revoked it yet */
	/* assigned to no member; its row names this instance, for dispatch only (rule R6) */
	PARTITION_ADOPTED,
};

/* A record that was read last, by which a recreated topic is recognised. */
struct last_record {
	int64_t offset; /* -1 = none */
	int64_t timestamp;
	struct log_digest digest;
};

/* A copy of the row in inbox_offsets. */
struct table_row {
	int64_t next; /* -1 = NULL */
	struct last_record last;
	int64_t epoch;
	bool forced;
	bool at_begin; /* it existed when the group began */
};

/* The position in Kafka's log. */
struct read_position {
	int64_t next; /* offset of the next record to add */
	/* the last record added; none since `next` was set. The digest is known only for a skipped
	 * record, and for the last record of the table. */
	struct last_record last;
};

/* What is known for the next decision about the start offset. */
struct start_hints {
	/* it follows from the watermark, or from `read.next` once that is set */
	bool watermark_only;
	bool from_next; /* it follows from `read.next`: librdkafka moved to another offset */
	bool recreated; /* verification found a recreated topic */
	bool rewound;   /* the watermark may be lowered to `read.next` */
};

/* The watermark update in the current batch. */
struct pending_update {
	bool touched;       /* the batch must update the watermark */
	bool in_doubt;      /* a COMMIT was not answered, or a statement failed */
	int64_t tried_next; /* the watermark that the last attempt would have written */
	bool may_hold; /* rejects of the partition may hold records back; see watermark_update */
};

/* The offsets of the consumer group. */
struct group_offsets {
	int64_t group;     /* when the partition was assigned; -1 = none */
	int64_t stored;    /* may be committed; -1 = nothing yet */
	int64_t committed; /* sent last; -1 = nothing yet */
};

/* observe.c: whether records come. */
struct fetching {
	int64_t seen_next; /* read.next at the last look */
	int64_t end;       /* of the log, when a broker was asked last */
	int64_t rechecked_ms;
	int64_t behind_ms; /* since when the log has records that do not come; 0 = it has none */
	bool stalled;      /* for too long; it is logged */
	int64_t open_ms;   /* since when it waits for the end of a transaction; 0 = it does not */
	bool open_logged;
};

/* A consumer with its stream of a partition. */
struct audience_member {
	size_t stream;                   /* index in the admission */
	const char *name;                /* of the consumer; valid as long as the admission */
	const struct consumer *consumer; /* NULL: its messages are not stored for this consumer */
};

/* partitions/audience.c: the consumers of a partition, whether they want its topic or not. None is removed. */
struct audience {
	struct audience_member *members;
	size_t count;
};

struct partition {
	const char *topic; /* lives as long as the table */
	int32_t partition;
	struct audience audience;
	enum partition_state state;
	bool flowing;                 /* not paused, and sought to the right offset */
	int64_t seek_fails_since_ms;  /* 0 = it does not fail */
	int64_t seek_fails_logged_ms; /* 0 = not yet */
	int64_t retry_at_ms; /* earliest time of the next attempt, after Kafka did not answer */
	bool due;            /* scratch of the step that runs: to be processed now */
	/* start_offset.c: the query whose answer decides the start offset; 0 = none. An answer to another query is about an
	 * earlier assignment or an earlier position, and does not count. */
	uint64_t query;
	uint64_t end_query; /* observe.c: the same for the end of its log */
	int32_t leader;     /* the number of the broker that answers for it; -1 = to be asked for */
	bool leader_is_new; /* it was asked for since the last decision */
	/* ADOPTED: since when no handler here accepts its messages; 0 = one does */
	int64_t unwanted_at_ms;
	/* ASSIGNED, or to be ADOPTED: the row names this instance, and this acquisition searches
	 * for claims of others; 0 = none */
	uint64_t acquisition;

	struct table_row table;
	struct read_position read;
	/* the record at this offset must have this timestamp and digest; offset -1 = verified */
	struct last_record verify;
	struct topic_log log;          /* that is read; table.next and this belong together */
	char topic_id[TOPIC_ID_BYTES]; /* what a broker sent last; "" = none */
	/* since when it does not flow, so that its topic may have been created again; 0 = it flows */
	int64_t stopped_ms;
	struct fetching fetching;
	struct start_hints start;
	struct pending_update update;
	struct group_offsets offsets;

	/* Looked up once, in ownership_partition(). */
	const struct identity_rules *rules;
	struct metric *received;
	struct metric *skipped;
	struct metric *unwanted;
};

struct partitions {
	struct partition **items;
	size_t count;
	size_t room;
	struct partition_index index;
	/* result of the last search; records arrive in runs of one partition */
	struct partition *latest;
	/* scratch with room for all partitions: the results of partitions_select() and
	 * partitions_refs() */
	struct partition_offset *selected;
	struct partition_ref *refs;
};

void partitions_fini(struct partitions *partitions);
/* The partition, or NULL when it was never seen. */
struct partition *partitions_find(
	struct partitions *partitions, const char *topic, int32_t partition);
/* The partition. A new one is created if necessary; then `made` is true and only its name is set.
 * NULL: out of memory. */
struct partition *partitions_get(
	struct partitions *partitions, const char *topic, int32_t number, bool *made);

/* Clears `due` of all partitions. */
void partitions_mark_none(struct partitions *partitions);

typedef bool partition_test(const struct partition *partition);
size_t partitions_number(const struct partitions *partitions, partition_test *test);
/* The partitions that pass the test, for Kafka, with offset = -1. Borrowed until the next call. */
struct partition_offset *partitions_select(
	struct partitions *partitions, partition_test *test, size_t *count);
/* The same for the store. */
const struct partition_ref *partitions_refs(
	struct partitions *partitions, partition_test *test, size_t *count);

/* Resets the values of an earlier assignment. */
void partition_reset(struct partition *partition, enum partition_state state);
/* Kafka took the partition away, but the table still names this instance: keeps it for dispatch
 * only. */
void partition_keep(struct partition *partition);
/* Copies the row in inbox_offsets, except `log`, which can be ahead of the row. */
void partition_note_row(struct partition *partition, const struct watermark *row);
/* Requests the verification of the last record read, if there is one, before reading continues. */
void partition_verify_last(struct partition *partition);
/* The record to verify is as expected, or nothing can show the opposite. The log then has the id that a broker sent, which
 * a later watermark update stores. */
void partition_verified(struct partition *partition);
/* The offset from which librdkafka must read. */
int64_t partition_seek_offset(const struct partition *partition);

bool partition_is_assigned(
	const struct partition *partition);               /* assigned to this instance by Kafka */
bool partition_is_new(const struct partition *partition); /* the row is not taken yet */
/* the row names this instance, and dispatch knows the partition */
bool partition_is_ours(const struct partition *partition);
bool partition_is_being_taken(
	/* the row names this instance, and dispatch does not know the partition yet */
	const struct partition *partition);
bool partition_is_adopted(const struct partition *partition);
bool partition_is_flowing(const struct partition *partition);
bool partition_is_due(const struct partition *partition); /* to be processed in this round */

#endif
