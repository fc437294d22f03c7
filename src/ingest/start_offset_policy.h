/*
 * Where to start reading a partition (contract section 3, rule R17): a pure decision about offsets.
 *
 * The lower of the group's offset and the watermark wins, so that neither a database that lost its
 * last commits nor a commit that Kafka lost costs a message. A watermark outside the log is never
 * passed over in silence.
 */
#ifndef INGEST_START_OFFSET_POLICY_H
#define INGEST_START_OFFSET_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What kafka.auto.offset.reset asks for where nobody has read yet. */
enum reset_policy { RESET_EARLIEST, RESET_LATEST, RESET_REFUSE };

/* Offsets; -1 = there is none. */
struct start_offset_facts {
	int64_t watermark;   /* everything below is in the table */
	int64_t group;       /* what the group committed */
	int64_t low;         /* first offset of the log */
	int64_t high;        /* end of the log: the next record's offset */
	int64_t last_offset; /* last record stored, and its timestamp in ms */
	int64_t last_timestamp;
	bool last_digest; /* its digest is known, too */
	bool alone;       /* the watermark alone decides: moved by hand, or read on */
	bool recreated;   /* known already: the record at last_offset is another one */
	enum reset_policy reset;
};

struct start_offset {
	int64_t start;  /* the first record that counts */
	int64_t seek;   /* where to read from: start, or the last record stored */
	bool verify;    /* the record at last_offset must carry last_timestamp, and its digest */
	bool recreated; /* another log under the old name */
	bool gap;       /* [gap_from, start) was deleted unread */
	int64_t gap_from;
};

/* START_OFFSET_REFUSED: nobody has read yet, and the policy is to refuse. */
enum { START_OFFSET_REFUSED = 1 };
int start_offset_decide(const struct start_offset_facts *facts, struct start_offset *out);

/* The policy of a value of auto.offset.reset; librdkafka has checked it. */
enum reset_policy start_offset_policy(const char *value);

#endif
