/*
 * The rows of inbox_offsets: the owner, the epoch and the watermark of each partition. A batch moves
 * the watermarks itself (batch_writer.h); the functions here acquire, release and read partitions,
 * on the connection of the batch writer, while no batch is sent. Blocking. One thread: the ingest
 * thread.
 */
#ifndef STORE_BATCHES_WATERMARKS_H
#define STORE_BATCHES_WATERMARKS_H

#include "model/message/message.h"
#include "store/batches/batch_writer.h"
#include "store/partition_ref.h"

struct watermark {
	char *topic; /* owned by the list */
	int32_t partition;
	int64_t next_offset; /* -1: none yet */
	int64_t epoch;
	int64_t last_offset;    /* -1: none */
	int64_t last_timestamp; /* ms; -1: none */
	struct log_digest last_digest;
	struct topic_log log;
	bool at_begin; /* it existed when the group began, see watermarks_begin() */
	bool forced;   /* inbox.seek() was called: the watermark alone decides the start offset */
	bool mine;     /* the owner is this instance */
};
struct watermarks {
	struct watermark *items;
	size_t count;
};
void watermarks_free(struct watermarks *list);

/* The entries of kafka.topics, and the topics that they match now. All borrowed. */
struct begun_topic {
	const char *entry;
	char *topic;
	int32_t partitions;
};
struct begun_topics {
	const char *const *entries;
	size_t entry_count;
	const struct begun_topic *topics;
	size_t count;
};
/* Call it before the first partition is taken. For each entry that no sidecar has used before, makes the rows of its
 * partitions with `at_begin`. The row of a partition that is created later does not have it. */
int watermarks_begin(
	struct batch_writer *writer, const struct begun_topics *begun, struct err *err);

/* Acquires partitions that Kafka assigned: sets the owner to this instance and raises the epoch,
 * whoever the owner was (rule R6). WRITER_FENCED: the lease of this instance is gone. A partition
 * whose row is locked is missing in `out`; try again. */
int watermarks_take(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* The same for partitions that are assigned to no member. A partition with another live owner is
 * missing in `out`. */
int watermarks_adopt(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
typedef void orphan_visit(const char *topic, int32_t partition, bool mine, void *arg);
/* Calls `visit` for partitions that have waiting messages and that had no live owner for age_ms.
 * This instance (`mine`) does not count as a live owner. At most 1,000 partitions, drawn at random. */
int watermarks_orphans(struct batch_writer *writer, int64_t age_ms, orphan_visit *visit, void *arg,
	struct err *err);
/*
 * Reads the watermarks under their row locks. The lock waits for an earlier transaction of this
 * instance whose answer was lost; its outcome is visible afterwards. Rows that it claimed are given
 * back, because memory does not know them (rule R3). Must be called after every reconnect and after
 * WRITER_MOVED, before the next batch.
 */
int watermarks_resync(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct watermarks *out, struct err *err);
/* Reads the watermarks of this instance without locks, to detect a change by hand. */
int watermarks_peek(struct batch_writer *writer, struct watermarks *out, struct err *err);
/* Gives up partitions after a revocation. */
int watermarks_release(struct batch_writer *writer, const struct partition_ref *refs, size_t count,
	struct err *err);

#endif
