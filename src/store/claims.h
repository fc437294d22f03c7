/*
 * The dispatch side of the store: claims, releases, sweeps (rules R7, R10, R13, R15). Blocking; one
 * db, one thread: a worker's. Everything it is given is borrowed for the call.
 */
#ifndef STORE_CLAIMS_H
#define STORE_CLAIMS_H

#include "model/message.h"
#include "model/ordering.h"
#include "model/routing.h"
#include "store/db.h"

struct claim_partition {
	const char *topic;
	int32_t partition;
};
struct claim_partitions {
	const struct claim_partition *items;
	size_t count;
};

/* A key of a partition. */
struct claim_lane {
	const char *topic;
	int32_t partition;
	uint64_t key_hash;
};
struct claim_lanes {
	const struct claim_lane *items;
	size_t count;
};

/* Rows that PostgreSQL refuses to have claimed. */
struct refused_seqs {
	int64_t *items;
	size_t count;
	size_t room;
};
void refused_seqs_fini(struct refused_seqs *seqs);
int refused_seqs_add(struct refused_seqs *seqs, int64_t seq, struct err *err);

struct claim_request {
	int32_t instance;
	enum ordering ordering;
	const struct routing *routing; /* who wants what; closed handlers want nothing now */
	size_t max_rows;               /* claim_lanes: rows a lane */
	size_t max_bytes;
	int64_t number; /* of this claim, rising over the life of the instance */
	/* claims_due: for each partition since when rows are looked for, ms since 1970 by PostgreSQL's clock; -1, or
	 * NULL for all: ever. Not for ORDERING_PARTITION. */
	const int64_t *since;
	const struct refused_seqs *without; /* rows that stay as they are; NULL = none */
};

struct claimed_row {
	struct message *message; /* owned; NULL when the row was parked instead of claimed */
	bool followed;           /* more rows of its key wait behind it in the table */
};
struct claimed {
	struct claimed_row *rows; /* claimed ones, ordered by topic, partition, offset, seq */
	size_t count;
	size_t parked; /* rows the statement parked, or gave up as DELIVERY_COUNT */
	size_t seen; /* claimed + parked: fewer than max_rows and not cut = nothing due is left, since then */
	bool cut; /* max_bytes left rows behind; at least one was seen */
	/* claims_due: of each partition the latest due time seen, -1 = none; NULL of the others. */
	int64_t *latest;
};
void claimed_fini(struct claimed *claimed);

/* CLAIM_UNKNOWN: the connection was lost after the statement was sent; rows may be claimed that
 * nobody holds: run claims_rescue() when no claim is under way (rule R3). */
enum { CLAIM_UNKNOWN = 1 };

/* Claims what is due in these partitions; with ORDERING_PARTITION the unbroken run from the lowest
 * waiting offset of each. */
int claims_due(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct claimed *out, struct err *err);
/* Claims the unbroken run at the head of these keys, parked rows too. */
int claims_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct claimed *out, struct err *err);

/* Finds rows of which one may be why claims failed (db_error_may_be_row()): tries those that the claim would take first,
 * halving them, and changes nothing. What PostgreSQL refuses alone is added to `out`, in which there may be rows to leave
 * out; `err` keeps what was said of the last one. A fault when each of several is refused: then it is not the rows. */
int claims_probe_due(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct refused_seqs *out, struct err *err);
int claims_probe_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct refused_seqs *out, struct err *err);

/* One page of a sweep through the keys of a partition that have waiting rows. */
struct parked_page {
	uint64_t *hashes; /* keys whose lowest waiting row is parked and wanted */
	size_t count;
	uint64_t last; /* where the next page starts */
	bool more;
};
void parked_page_fini(struct parked_page *page);
/* Where a page lies. */
struct parked_place {
	struct claim_partition partition;
	const uint64_t *after; /* the `last` of the page before; NULL: the first page */
};
int claims_find_parked(struct db *db, const struct claim_request *request,
	const struct parked_place *place, struct parked_page *out, struct err *err);
/* Makes parked rows that wait for nothing but a handler claimable: those without a key, or all with
 * ORDERING_NONE. At most max_rows; `released` tells how many. */
int claims_release(struct db *db, const struct claim_request *request,
	const struct claim_partition *partition, int64_t *released, struct err *err);
/* waiting[i]: does any row of partition i wait (due, retry or parked)? */
int claims_any_waiting(struct db *db, const struct claim_partition *partitions, size_t count,
	bool *waiting, struct err *err);
/* What memory holds of the claims of an instance. */
struct claims_held {
	int32_t instance;
	int64_t low_claim; /* no claim below it may hold any */
	const int64_t *seqs;
	size_t count;
};
/* Gives back claims from the table that memory does not hold. `rescued` receives how many. */
int claims_rescue(struct db *db, const struct claims_held *held, int64_t *rescued, struct err *err);

/* Cheap gauges over some partitions. */
struct gauges_request {
	struct claim_partitions partitions;
	const struct routing *routing; /* who wants what */
	int64_t cap;                   /* counts no further */
	bool seldom;                   /* what only operators want, too */
};
struct gauges {
	int64_t waiting;       /* up to cap */
	int64_t oldest_due_ms; /* since the oldest was due, or received when nobody wants it */
	int64_t dead;          /* up to cap; when `seldom` */
	int64_t unrouted;      /* up to cap */
	int64_t snapshot_ms;   /* age of the oldest snapshot; when `seldom` */
};
int claims_gauges(
	struct db *db, const struct gauges_request *request, struct gauges *out, struct err *err);

#endif
