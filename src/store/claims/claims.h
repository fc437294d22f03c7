/*
 * Claims waiting rows for dispatch (rules R7, R10, R13, R15).
 *
 * A claim sets claimed_by and raises delivery_count in one statement, under a lock on the row of
 * this instance in inbox_instances. A fenced instance therefore claims nothing. A claim never waits
 * for a locked message row: it leaves the row to the next claim (rule R8).
 *
 * Every function blocks until the server answers or the deadline of the db passes. One db and one
 * thread, a worker's. Arguments are borrowed for the duration of the call.
 */
#ifndef STORE_CLAIMS_CLAIMS_H
#define STORE_CLAIMS_CLAIMS_H

#include "model/message/message.h"
#include "model/message/ordering.h"
#include "model/routing/routing.h"
#include "store/partition_ref.h"
#include "store/pg/db.h"

struct claim_streams {
	const struct stream_ref *items;
	size_t count;
};

/* Each a key of a stream or, with ORDERING_PARTITION, the whole stream. */
struct claim_lanes {
	const struct stream_ref *streams;
	const uint64_t *hashes;
	size_t count;
};

/* Rows that the claim statement leaves out, because PostgreSQL raised an error when a claim tried
 * to update them alone. */
struct refused_seqs {
	int64_t *items;
	size_t count;
	size_t room;
};
void refused_seqs_fini(struct refused_seqs *seqs);
int refused_seqs_add(struct refused_seqs *seqs, int64_t seq, struct err *err);

struct claim_request {
	int32_t instance;
	/* the subscriptions; a handler that is closed gets no rows now */
	const struct routing *routing;
	size_t max_rows; /* for claims_lanes(): rows per lane */
	size_t max_bytes;
	int64_t number; /* the number of this claim; it rises during the life of the instance */
	/* For claims_due(): the lower bound of the due time for each stream, in ms since 1970 by
	 * PostgreSQL's clock. -1, or NULL for all streams: no lower bound. Not used with
	 * ORDERING_PARTITION. */
	const int64_t *since;
	const struct refused_seqs *without; /* rows that the claim leaves unchanged; NULL = none */
};

struct claimed_row {
	struct message *message; /* owned; NULL when the caller has taken it */
	size_t stream;           /* index of its stream, or of its lane, in the request */
	bool followed;           /* more rows of its key wait behind it in the table */
};
struct claimed {
	struct claimed_row *rows; /* the claimed rows, ordered by stream, offset, seq */
	size_t count;
	size_t parked; /* rows that the statement parked, or set to dead with the code DELIVERY_COUNT */
	size_t seen;  /* claimed + parked */
	bool limited; /* rows may have been left because of max_rows */
	bool cut;     /* rows were left because of max_bytes; `seen` is at least 1 */
	/* For claims_due(): the latest due time seen in each stream; -1 = none, or with
	 * ORDERING_PARTITION. */
	int64_t *latest;
};
void claimed_fini(struct claimed *claimed);

/* CLAIM_UNKNOWN: the connection was lost after the statement was sent. The rows may be claimed in
 * the table while no memory holds them. The caller must run claims_rescue() once no claim is in
 * progress (rule R3). */
enum { CLAIM_UNKNOWN = 1 };

/* Claims the due rows of these streams. Of a stream with ORDERING_PARTITION it claims the unbroken
 * run of rows from the lowest waiting offset on. If there are streams of both kinds, each kind gets
 * half of max_rows and max_bytes, and one transaction claims both. */
int claims_due(struct db *db, const struct claim_request *request,
	const struct claim_streams *streams, struct claimed *out, struct err *err);
/* Claims the unbroken run of rows at the head of each lane, parked rows included. */
int claims_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct claimed *out, struct err *err);

/*
 * Finds the rows that make claims fail, if the error may be about single rows
 * (db_error_may_be_row()). It tries the rows that the claim would take first, in halves, and rolls
 * back every try. A row that is refused alone is added to `out`. `out` may already contain rows;
 * they are left out of the tries. `err` keeps the error of the last refused row. If PostgreSQL
 * refuses each of several rows, the result is a fault, because then the rows are not the cause.
 */
int claims_probe_due(struct db *db, const struct claim_request *request,
	const struct claim_streams *streams, struct refused_seqs *out, struct err *err);
int claims_probe_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct refused_seqs *out, struct err *err);

/* The claims that an instance holds in memory. */
struct held_claim {
	int64_t seq;
	int32_t delivery_count;
};
struct claims_held {
	int32_t instance;
	int64_t low_claim; /* every claim with a lower number is settled */
	const struct held_claim *rows;
	size_t count;
};
/* Gives back the rows that the table shows as claimed by this instance although memory does not
 * hold them. `rescued` receives their number. */
int claims_rescue(struct db *db, const struct claims_held *held, int64_t *rescued, struct err *err);

#endif
