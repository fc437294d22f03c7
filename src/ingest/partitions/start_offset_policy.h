/*
 * Decides where the reading of a partition starts (contract section 3, rule R17). Pure.
 *
 * The lower of the group's offset and the watermark wins, so that no message is lost when the
 * database lost its last commits or when Kafka lost an offset commit. A watermark outside the log
 * is always reported: it means a recreated topic or deleted records.
 */
#ifndef INGEST_PARTITIONS_START_OFFSET_POLICY_H
#define INGEST_PARTITIONS_START_OFFSET_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* The value of kafka.auto.offset.reset, used when neither the group nor the table has an offset. */
enum reset_policy { RESET_EARLIEST, RESET_LATEST, RESET_REFUSE };

/* Offsets; -1 = none. */
struct start_offset_facts {
	int64_t watermark;   /* every lower record is in the table */
	int64_t group;       /* committed by the group */
	int64_t low;         /* first offset of the log */
	int64_t high;        /* end of the log: the offset of the next record */
	int64_t last_offset; /* last stored record, and its timestamp in ms */
	int64_t last_timestamp;
	bool last_digest; /* the digest of that record is known */
	/* ignore the group: the watermark was set by an operator, or reading continues */
	bool watermark_only;
	bool recreated; /* already known: the record at last_offset differs */
	enum reset_policy reset;
};

struct start_offset {
	int64_t start;  /* offset of the first record to add */
	int64_t seek;   /* offset to read from: `start`, or that of the last stored record */
	bool verify;    /* the record at last_offset must match last_timestamp and the digest */
	bool recreated; /* the topic was recreated */
	bool gap;       /* the records in [gap_from, start) were deleted unread */
	int64_t gap_from;
};

/* START_OFFSET_REFUSED: there is no offset, and the policy is to refuse. */
enum { START_OFFSET_REFUSED = 1 };
int start_offset_decide(const struct start_offset_facts *facts, struct start_offset *out);

/* The policy for a value of auto.offset.reset, which librdkafka has already checked. */
enum reset_policy start_offset_policy(const char *value);

#endif
