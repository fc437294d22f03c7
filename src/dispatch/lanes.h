/*
 * Order in memory: a lane holds the claimed messages of one key (or of one partition), lowest offset
 * first, and only its head may be delivered (rules R10, R11, R13). Pure: no sockets, no SQL. One
 * thread.
 *
 * What is not in memory waits in the table. A lane remembers the lowest offset it knows to be outside:
 * nothing above it may be delivered before it, so later arrivals are parked. The table has the last
 * word: claims take only unbroken runs, and the INSERT parks what is behind a waiting row. Memory only
 * makes that cheap and keeps it going.
 */
#ifndef DISPATCH_LANES_H
#define DISPATCH_LANES_H

#include "base/err.h"
#include "dispatch/entry.h"
#include "model/ordering.h"

struct lane_key {
	uint64_t partition; /* index in the admission */
	uint64_t hash;      /* of the key; 0 with ORDERING_PARTITION */
};

struct lane {
	struct lane_key key;
	struct entry_list entries; /* by offset, then seq */
	size_t count;
	int64_t table_low;     /* lowest offset known to wait in the table; INT64_MAX = none */
	int64_t table_high;    /* highest one known; -1 = none */
	uint64_t table_seen;   /* claims given when something was last seen outside */
	size_t holds;          /* rows of it that another instance holds: nothing is delivered */
	bool blocked;          /* the one outside waits for its retry or for a handler: a claim of
				     * the lane would find nothing until that one was claimed */
	int64_t idle_since_ms; /* empty since */
	bool claimable;        /* in the list of lanes to go on with */
	TAILQ_ENTRY(lane) claimable_link;
	TAILQ_ENTRY(lane) idle_link;
	bool idle;
	UT_hash_handle hh;
};

TAILQ_HEAD(lane_list, lane);

struct lanes {
	enum ordering ordering;
	size_t depth;          /* most entries a lane keeps in memory */
	uint64_t claims_given; /* the number of the latest claim, kept current by the claimer */
	struct lane *table;
	struct lane_list claimable; /* empty, something outside, not blocked */
	size_t claimable_count;
	struct lane_list idle; /* empty and blocked, oldest first */
	size_t idle_count;
};

void lanes_init(struct lanes *lanes, enum ordering ordering, size_t depth);
/* Entries are not touched. */
void lanes_fini(struct lanes *lanes);

enum lane_arrival {
	ADMIT_HEAD,   /* deliver it now */
	ADMIT_BEHIND, /* it waits for those before it */
	ADMIT_PARK,   /* something before it is outside, or the lane is full: park it */
};
/* Puts the entry into its lane (none for what is ordered with nothing: always ADMIT_HEAD). With
 * ADMIT_HEAD an entry of a higher offset may have been READY before: it is not recalled, the new head
 * starts after it. FAULT_MEMORY. */
int lanes_admit(struct lanes *lanes, struct entry *entry, enum lane_arrival *out, struct err *err);

/* What one claim says about one lane. */
struct lane_run {
	int64_t last_offset; /* the unbroken run goes up to here */
	bool followed;       /* more waits behind it */
	uint64_t number;     /* of the claim */
};
/* A claim brought an unbroken run of this lane. To be called before its entries are admitted. What was
 * seen outside after the claim was given, the claim may not have seen: that stays outside. */
void lanes_claimed(
	struct lanes *lanes, size_t partition, uint64_t hash, const struct lane_run *run);

/* True when the entry may go now: it is the lowest of its lane. */
bool lanes_is_head(const struct entry *entry);

/* True when something before the entry is outside, or on its way there: it must be parked. */
bool lanes_must_park(const struct entry *entry);

/* The entry's verdict is committed or its claim lost. `outside`: it waits in the table now;
 * `blocked`: and claims of the lane find nothing before it is due. Gives the entry that is head now
 * when it is QUEUED and nothing of the lane is under way: to be made READY, or parked. */
struct entry *lanes_leave(struct lanes *lanes, struct entry *entry, bool outside, bool blocked);

/* Ingest or a sweep saw rows of this lane parked in the table, from `offset` on; -1: it cannot say
 * from where on, somewhere behind what memory holds. FAULT_MEMORY. */
int lanes_parked(
	struct lanes *lanes, size_t partition, uint64_t hash, int64_t offset, struct err *err);
/* A claim of this lane found nothing: it waits for the one outside. */
void lanes_block(struct lanes *lanes, size_t partition, uint64_t hash);
/* Another instance holds a row of this lane: from now on everything of it is parked, until lanes_unhold()
 * was called as often (rule R12). FAULT_MEMORY. */
int lanes_hold(struct lanes *lanes, size_t partition, uint64_t hash);
/* That row is over, or waits in the table at `offset` (-1: it is over). */
void lanes_unhold(struct lanes *lanes, size_t partition, uint64_t hash, int64_t offset);
/* True when memory holds nothing of this lane, and no other instance does. */
bool lanes_is_free(const struct lanes *lanes, size_t partition, uint64_t hash);
/* Takes up to `most` lanes off the spill list: to be claimed now. */
size_t lanes_take_claimable(struct lanes *lanes, struct lane_key *out, size_t most);
/* Forgets idle lanes of a partition that went away, or, with SIZE_MAX, the oldest idle ones above
 * `most` that are older than ten seconds (nothing decided before them is still on its way). */
void lanes_forget(struct lanes *lanes, size_t partition, size_t most, int64_t now_ms);

#endif
