/*
 * An entry: a message that this instance has claimed and holds in memory. It lives from the arrival of the message
 * until the verdict is committed or the claim is known to be lost. It belongs to the dispatch thread. A worker
 * reads a copy of the verdict while the entry is SETTLING.
 *
 *	            lane head            window           answer, timeout, loss
 *	 QUEUED ───────────────▶ READY ───────────▶ OPEN ───────────────────────▶ SETTLING ──▶ freed
 *	    │                      │  ▲ suspect: RESERVED until its connection is empty  ▲
 *	    └──────────────────────┴──┴── parked, returned ──────────────────────────────┘
 *
 * Invariants:
 * - An entry is in exactly one list for its state (`link`).
 * - At most one entry of a lane is READY, RESERVED or OPEN.
 * - An entry leaves its lane only when its verdict is committed or its claim is lost. So the delivery of the next
 *   message of a key starts after the COMMIT of the one before (guarantee G4).
 */
#ifndef DISPATCH_ORDER_ENTRY_H
#define DISPATCH_ORDER_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Without memory HASH_ADD leaves the element out of the table, and hh.tbl NULL, instead of ending the process. */
#define HASH_NONFATAL_OOM                1
#define HASH_FUNCTION(key, length, hash) HASH_FNV(key, length, hash)
/* uthash fills a bucket with up to ten elements. Each of them costs a cache miss at a lookup. */
#define HASH_BKT_CAPACITY_THRESH         2U
#include <uthash.h>

#include "model/message.h"
#include "store/settle.h"

enum entry_state { ENTRY_QUEUED, ENTRY_READY, ENTRY_RESERVED, ENTRY_OPEN, ENTRY_SETTLING };

/* How a delivery ended. The label of inboxd_deliveries_total. */
enum entry_end {
	END_DONE,
	END_RETRY,
	END_DEAD,
	END_SNOOZE,
	END_SETTLED,
	END_TIMEOUT,
	END_CRASH,
	END_RETURNED, /* returned or parked: no delivery ended, nothing is counted */
};

struct handler;
struct session;
struct call;
struct lane;
struct open_claim;

struct entry {
	struct message *message; /* owned */
	size_t partition;        /* index in the admission */
	enum entry_state state;
	struct handler *handler; /* whom it is routed to; NULL = nobody */
	struct lane *lane;       /* NULL: ordered with nothing */
	struct session *session; /* RESERVED, OPEN */
	struct call *call;       /* OPEN in a batch */
	TAILQ_ENTRY(entry) link; /* the list of its state */
	TAILQ_ENTRY(entry) lane_link;
	TAILQ_ENTRY(entry) born_link;
	TAILQ_ENTRY(entry) call_link;
	UT_hash_handle hh;        /* by message->seq */
	bool born;                /* in the list that bounds come from */
	struct open_claim *claim; /* that brought it from the table; NULL when born */
	bool raising;             /* RESERVED: in the settler to have its crash_count raised */
	bool raised;              /* its crash_count is raised in the table */
	bool in_flight;           /* counts against max_in_flight until settled */
	int64_t deadline_ms;      /* clock_now_ms() */
	int64_t bound_ms;         /* OPEN: no extension beyond; 0 = none, its partition is ours */
	bool cut;                 /* the bound, not its deadline, ends it */
	int64_t opened_us;
	int64_t retry_at_ms; /* SETTLING: not before */
	int refusals;   /* tries of its verdict in a row that failed, maybe because of its row */
	bool set_aside; /* its verdict waits alone: see settle_retries.c */
	int set_aside_tries;
	enum entry_end end;
	struct settle_row verdict;
	char *error; /* owned texts of the verdict */
	char *error_code;
	char *result;
};

TAILQ_HEAD(entry_list, entry);

#endif
