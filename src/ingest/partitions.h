/*
 * The partitions of this sidecar as the ingest thread sees them. Made on first sight, never removed:
 * a revoked one rests until Kafka gives it again. One thread.
 *
 *	          Kafka         inbox_take, taking     place decided
 *	 ABSENT ────────▶ ASSIGNED ──────────▶ TAKEN ─────────────▶ READING
 *	    ▲                                   ▲  ▲                 │ │
 *	    │ revoked (from any)                │  └─ moved by hand, ┘ │ another owner
 *	    │                                   │     log reset        ▼
 *	    ├───────────────────────────────────┴─────────────────  FOREIGN
 *	    └── taken by another, wanted no more ── ADOPTED: assigned to nobody, or lost to Kafka only
 *
 * Invariants: only a READING partition with `flowing` accepts records; everything below `next` is in
 * the table or in the batch at hand; table_* is what the row in inbox_offsets holds as far as we know,
 * `stored` is below or at `next` and never above what a COMMIT has confirmed.
 */
#ifndef INGEST_PARTITIONS_H
#define INGEST_PARTITIONS_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "config/config.h"
#include "model/admission.h"
#include "model/identity.h"
#include "model/partition_index.h"
#include "store/inbox.h"

enum partition_state {
	PARTITION_ABSENT,   /* not ours */
	PARTITION_ASSIGNED, /* Kafka gave it; its row is not taken yet */
	PARTITION_TAKEN,    /* its row is ours; where to read on is to be decided */
	PARTITION_READING,  /* reading, or to be read on from `next` */
	PARTITION_FOREIGN,  /* another sidecar took the row; Kafka will tell us, too */
	PARTITION_ADOPTED,  /* assigned to nobody; its row is ours, for dispatch only (rule R6) */
};

struct partition {
	const char *topic; /* lives as long as the table */
	int32_t partition;
	size_t index; /* in the admission */
	enum partition_state state;
	bool flowing;           /* not paused, and sought to where we want to read */
	int64_t retry_at_ms;    /* not to be tried before: Kafka did not answer */
	bool due;               /* to be tried in this round */
	int64_t unwanted_at_ms; /* ADOPTED: since when no handler wants it; 0 = one does */
	/* ASSIGNED, or to be ADOPTED: its row is ours, and this taking looks for what others hold of it; 0 = none does. */
	uint64_t acquisition;

	/* The row in inbox_offsets. */
	int64_t table_next;        /* -1 = NULL */
	int64_t table_last_offset; /* -1 = NULL */
	int64_t table_last_timestamp;
	struct log_digest table_last_digest;
	int64_t epoch;
	bool forced;

	/* The place in Kafka's log. */
	int64_t next;        /* the next record that counts */
	int64_t last_offset; /* last record read that counted; -1 = none since `next` was set */
	int64_t last_timestamp;
	struct log_digest
		last_digest;   /* known of a skipped record only, and of what the table has */
	int64_t verify_offset; /* the record there must carry what follows; -1 = verified */
	int64_t verify_timestamp;
	struct log_digest verify_digest;
	bool alone;     /* decide by the watermark, or by `next` once it is set */
	bool read_on;   /* decide by `next`: librdkafka lost its place in the log */
	bool recreated; /* found to be another log while verifying */
	bool rewound;   /* the watermark may move down to `next` */

	/* The batch at hand. */
	bool touched;       /* its watermark is to be moved */
	bool in_doubt;      /* a COMMIT was not answered, or a statement failed */
	int64_t tried_next; /* what the last try would have made of the watermark */

	/* Kafka's group offset. */
	int64_t group;     /* when the partition was given to us; -1 = none */
	int64_t stored;    /* may be committed; -1 = nothing yet */
	int64_t committed; /* sent last; -1 = nothing yet */

	/* Looked up once. */
	const struct identity_rules *rules;
	struct metric *received;
	struct metric *skipped;
};

struct partitions {
	struct partition **items;
	size_t count;
	size_t room;
	struct partition_index index;
	struct partition *latest; /* records come in runs of one partition */
};

void partitions_fini(struct partitions *partitions);
/* The partition, or NULL when it was never seen. */
struct partition *partitions_find(
	struct partitions *partitions, const char *topic, int32_t partition);
/* The partition, made when new (then `made` is true and only its names are set). NULL: no memory. */
struct partition *partitions_get(
	struct partitions *partitions, const char *topic, int32_t number, bool *made);

typedef bool partition_test(const struct partition *partition);
size_t partitions_number(const struct partitions *partitions, partition_test *test);
/* Those that pass, as a list for librdkafka with offset = INVALID; the caller destroys it. NULL when
 * none passes. */
rd_kafka_topic_partition_list_t *partitions_list(
	const struct partitions *partitions, partition_test *test);
/* Those that pass, as references for the store; malloc'ed, NULL when none or no memory. */
struct partition_ref *partitions_refs(
	const struct partitions *partitions, partition_test *test, size_t *count);

/* Forgets what an earlier assignment left. */
void partition_reset(struct partition *partition, enum partition_state state);
/* Lost to Kafka, not to the table: as it is, for dispatch only. */
void partition_keep(struct partition *partition);
/* Notes what the row in inbox_offsets holds. */
void partition_note_row(struct partition *partition, const struct watermark *row);
/* Before it is read on, the last record read is to be looked at again, where there is one. */
void partition_look_back(struct partition *partition);
/* Where librdkafka has to read on. */
int64_t partition_seek_offset(const struct partition *partition);

bool partition_is_assigned(const struct partition *partition); /* to this process, by Kafka */
bool partition_is_new(const struct partition *partition);      /* row not taken yet */
bool partition_is_ours(const struct partition *partition); /* row is ours, and dispatch knows it */
bool partition_is_being_taken(
	const struct partition *partition); /* row is ours, dispatch does not know it */
bool partition_is_adopted(const struct partition *partition);
bool partition_is_flowing(const struct partition *partition);
bool partition_is_due(const struct partition *partition); /* to be tried in this round */

#endif
