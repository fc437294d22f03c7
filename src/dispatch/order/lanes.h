/*
 * Order in memory. A lane holds the claimed messages of one key of a stream or, with `ordering: partition`, of a
 * whole stream.
 * They are sorted by offset. Only the first one, the head, may be delivered (rules R10, R11, R13), and in an ordered
 * batch the messages behind it (rule R26).
 * Pure: no sockets, no SQL. One thread.
 *
 * With `next_after: answer`, a message that was answered `done` is not the head any more: the next one may start
 * (rule R25). It leaves `entries`, and is in `unsettled` until its verdict is committed. A delivered entry whose other
 * verdict stops the lane is in both lists until then. `unsettled` is in the order of the verdicts, and they are
 * committed in this order.
 *
 * When a message goes back to the table for a short retry, the first entries behind it stay in memory if at least
 * half of the budget is free. Their rows are not updated.
 *
 * Further messages of a lane can wait in the table. The lane remembers the lowest offset of those it knows about.
 * A message above that offset must not be delivered before it, so it is parked when it arrives.
 *
 * The table decides about order, not the lane: a claim takes only a run of rows without a gap, and the INSERT parks
 * a row behind a waiting row of its key. The lane saves statements, and it knows which keys to claim next.
 */
#ifndef DISPATCH_ORDER_LANES_H
#define DISPATCH_ORDER_LANES_H

#include "base/err.h"
#include "dispatch/order/entry.h"
#include "model/message/ordering.h"

struct lane_key {
	uint64_t stream; /* index in the admission */
	uint64_t hash;   /* of the key; 0 with ORDERING_PARTITION, here and in all functions */
};

struct lane {
	struct lane_key key;
	uint64_t id; /* unique among all lanes so far */
	struct entry_list
		entries; /* by offset, then seq; without those that were answered `done` */
	struct entry_list
		unsettled; /* ended deliveries whose verdicts the table does not have, in their order */
	size_t count;      /* of entries; one that is in both lists counts once */
	size_t unsettled_count;
	/* The highest `count` since the last claim. The lane is claimed again when `count` is half of it (rule R25). */
	size_t filled;
	size_t active; /* of `entries`: in another state than QUEUED */
	size_t outgoing; /* of `entries`: SETTLING, and their rows go back to the table, or may do so */

	/* What is known about rows of this lane that wait in the table. */
	int64_t table_low;   /* the lowest offset; INT64_MAX = no row is known */
	int64_t table_high;  /* the highest offset; -1 = no row is known */
	uint64_t table_seen; /* lanes.claims_given when a row was last seen in the table */

	/* A row that waits in the table for its retry while the entries wait behind it in memory; INT64_MAX = none. */
	int64_t retry_offset;
	int64_t retry_until_ms; /* when the entries go back to the table if the row has not come back */
	TAILQ_ENTRY(lane) retrying_link;

	size_t holds; /* rows that another instance holds: while there is one, nothing is delivered */
	/* The first row in the table waits for its retry or for a handler. A claim of this lane would find nothing. */
	bool blocked;
	int64_t idle_since_ms;
	bool claimable; /* the lane is in the list of that name */
	bool idle;      /* the lane is in the list of that name */
	TAILQ_ENTRY(lane) claimable_link;
	TAILQ_ENTRY(lane) idle_link;
	UT_hash_handle hh;
};

TAILQ_HEAD(lane_list, lane);

/* What the configuration says about lanes. */
struct lane_rules {
	bool wait_for_commit; /* inbox.next_after: a message starts after the COMMIT of the one before */
	size_t max_unsettled; /* verdicts that a lane may have while its next message starts (rule R25) */
	size_t depth;         /* entries that a lane may have in memory, unless it is fast */
	int64_t fast_ms; /* a lane is fast while its oldest message arrived less than this time ago */
	size_t claim;    /* the most rows of one lane that a claim brings */
};

struct lanes {
	struct lane_rules rules;
	uint64_t claims_given; /* the number of the latest claim; the claimer sets it */
	uint64_t ids;          /* the id of the latest lane */
	struct lane *table;
	struct lane_list claimable; /* rows in the table and few entries, not blocked */
	size_t claimable_count;
	struct lane_list retrying; /* with a retry_offset, by retry_until_ms */
	struct lane_list idle;     /* no entries and blocked, oldest first */
	size_t idle_count;
};

void lanes_init(struct lanes *lanes, const struct lane_rules *rules);
/* Frees the lanes, not their entries. */
void lanes_fini(struct lanes *lanes);

enum lane_arrival {
	ADMIT_HEAD,   /* deliver it now */
	ADMIT_BEHIND, /* deliver it when the entries before it let it start */
	/* Park it: the lane is full, or an earlier row is in the table (except a row for whose short retry the lane
	 * waits). */
	ADMIT_PARK,
};
/* Puts the entry into its lane. A message without an order (no key, or `ordering: none`) has no lane and is always
 * ADMIT_HEAD. ADMIT_HEAD can displace a READY entry of a higher offset; the caller recalls it. FAULT_MEMORY. */
int lanes_admit(struct lanes *lanes, struct entry *entry, enum lane_arrival *out, struct err *err);

/* What one claim says about one lane. */
struct lane_run {
	int64_t last_offset; /* the last row of the run, which has no gap */
	bool followed;       /* more rows of the lane wait behind it */
	uint64_t number;     /* the number of the claim */
};
/* A claim brought a run of this lane. Call it before the rows are admitted. A row that was seen in the table after
 * the claim was given still counts as being there, because the claim may not have seen it. */
void lanes_claimed(struct lanes *lanes, size_t stream, uint64_t hash, const struct lane_run *run);

/* True when the entry is the first of its lane, or has no lane. */
bool lanes_is_head(const struct entry *entry);

/* True when an earlier message of the lane is in the table or on its way there (except a row for whose short retry
 * the lane waits). The entry must be parked then. */
bool lanes_must_park(const struct entry *entry);

/* Sets the state of an entry, and counts it in its lane. */
void lanes_set_state(struct entry *entry, enum entry_state state);
/* The entry has its verdict. Its state is SETTLING from now on. Only after `done`, and with `next_after: answer`, may
 * its lane go on (lanes_next). */
void lanes_settling(struct lanes *lanes, struct entry *entry);
/* A return has replaced the `done` of this entry, which is not in the table. The entry stops its lane again. */
void lanes_take_back(struct entry *entry);
/* The same for a failed attempt: its verdict keeps its place among those of the lane. */
void lanes_take_back_failed(struct entry *entry);
/* The verdict that must be committed before the one of this entry, or NULL. */
struct entry *lanes_verdict_before(const struct entry *entry);
/* True when the lane has half of the unsettled verdicts that it may have, and none of them is being settled. A settle
 * that begins now ends before the other half makes the lane wait. */
bool lanes_is_half_unsettled(const struct lanes *lanes, const struct lane *lane);
/* The entry that can start now, or NULL. The caller makes it READY or parks it. */
struct entry *lanes_next(const struct lanes *lanes, const struct lane *lane);

/* Removes an entry whose verdict is committed or whose claim is lost. `outside`: its row waits in the table.
 * `blocked`: and it is not due, so that a claim of the lane finds nothing until it is.
 * Returns the entry that can start now, as lanes_next() does. */
struct entry *lanes_leave(struct lanes *lanes, struct entry *entry, bool outside, bool blocked);

/* Ends the wait of a lane if the row has not come back for its retry in time: from now on the row counts as any other
 * in the table. False: there is no such lane. `next`: as in lanes_leave(). */
bool lanes_end_retry(struct lanes *lanes, int64_t now_ms, struct entry **next);

/* Ingest or a sweep saw a parked row of this lane at `offset`; -1: the offset is not known. FAULT_MEMORY. */
int lanes_parked(
	struct lanes *lanes, size_t stream, uint64_t hash, int64_t offset, struct err *err);
/* A claim of this lane found nothing: its first row cannot be claimed yet. */
void lanes_block(struct lanes *lanes, size_t stream, uint64_t hash);
/* Another instance holds a row of this lane. Everything of the lane is parked until lanes_unhold() has been called
 * once for each hold (rule R12). FAULT_MEMORY. */
int lanes_hold(struct lanes *lanes, size_t stream, uint64_t hash);
/* Ends one hold. The row waits in the table at `offset`, or is processed or dead (-1). */
void lanes_unhold(struct lanes *lanes, size_t stream, uint64_t hash, int64_t offset);
/* True when the lane has no entries and no holds. */
bool lanes_is_free(const struct lanes *lanes, size_t stream, uint64_t hash);
/* Removes up to `most` lanes from the claimable list, for a claim that is made now. */
size_t lanes_take_claimable(struct lanes *lanes, struct lane_key *out, size_t most);
/* Frees all lanes without entries of the streams that are gone, because they were revoked. One pass over all lanes. */
typedef bool lanes_is_gone(void *arg, size_t stream);
void lanes_forget_streams(struct lanes *lanes, lanes_is_gone *is_gone, void *arg);
/* Frees the oldest idle lanes, until `most` are left, but none that became idle less than ten seconds ago. */
void lanes_forget_idle(struct lanes *lanes, size_t most, int64_t now_ms);

#endif
