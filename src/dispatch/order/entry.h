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
 * An entry that follows another one in an ordered batch goes from QUEUED to OPEN.
 *
 * Invariants:
 * - `link` is for the list of a READY, OPEN or SETTLING entry, or of a RESERVED one whose crash count will be raised.
 *   All other entries, entries in a job, and deferred verdicts are in no list. A deferred verdict is put back when
 *   the verdict before it in its lane is finished.
 * - At most one entry of a lane is READY, RESERVED or OPEN, except the entries of one ordered batch.
 * - An entry leaves its lane only when its verdict is committed or its claim is lost. Until then it stops the lane,
 *   with one exception: with `next_after: answer`, the next message starts after the answer `done` (rule R25 of
 *   docs/rules.md).
 * - The verdicts of a lane are committed in their order (rule R25).
 */
#ifndef DISPATCH_ORDER_ENTRY_H
#define DISPATCH_ORDER_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Without memory HASH_ADD leaves the element out of the table, and hh.tbl NULL, instead of ending the process. */
#define HASH_NONFATAL_OOM                1
#define HASH_FUNCTION(key, length, hash) HASH_FNV(key, length, hash)
#include <uthash.h>

#include "model/message/message.h"
#include "model/message/ordering.h"
#include "store/claims/settle.h"

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

struct handler_queue;
struct connection;
struct call;
struct lane;
struct open_claim;
struct job;
struct entry;

/* The place on a connection that one suspect reserves. */
struct reservation {
	struct entry *entry; /* RESERVED, or OPEN on this connection; NULL = none */
	int64_t since_ms;
	/* Until then the connection serves other messages: for as long as the last suspect kept it from them. */
	int64_t next_ms;
};

/* The delivery of an entry that is OPEN. The room schedule owns it. */
struct delivery {
	struct connection *connection;
	struct call *call; /* NULL: not part of a batch */
	TAILQ_ENTRY(entry) call_link;
	int64_t deadline_ms; /* clock_now_ms() */
	int64_t bound_ms;    /* the limit of extensions after a revocation; 0 = none */
	bool cut;            /* bound_ms, not its deadline, ends the delivery */
	int64_t opened_us;   /* kept after the end, for the spans; 0 = never delivered */
};

/* How its lane counts an entry. The room order owns it. */
struct in_lane {
	int64_t since_ms; /* when it arrived */
	TAILQ_ENTRY(entry) unsettled_link;
	bool unsettled; /* in the list lane.unsettled: it has a verdict, and this is not committed yet */
	bool answered; /* with `next_after: answer`: it was done, so it is not in lane.entries any more */
	/* Its row goes back to the table, and this is not committed yet; or its completion is in doubt. */
	bool outgoing;
	/* How long the messages behind it wait in memory, from the COMMIT on; 0 = they do not wait. */
	int64_t retry_ms;
	bool voided; /* the claim of an earlier message of the lane was lost: if this one is done, it comes again */
};

/* The tries to settle an entry that is SETTLING, or to raise its crash count. The room table owns it. */
struct settling {
	const struct job *job; /* the transaction that has its verdict; NULL = none */
	bool deferred;         /* in no list: it waits for the verdict before it in its lane */
	int64_t retry_at_ms;   /* when to try again */
	bool repeated;         /* a transaction with its verdict may be committed */
	int refusals;          /* failed tries in a row with an error that its row can cause */
	bool set_aside;        /* its verdict is set aside: see refused_verdicts.h */
	int set_aside_tries;
};

/* The texts that a verdict points to, owned. */
struct verdict_texts {
	char *error;
	char *error_code;
	char *result;
	char *emit;
};

/* The claim of an entry. While the verdict of an older claim is repeated, because its answer was lost, the row may have
 * been claimed again: then there are two entries with its seq. */
struct entry_key {
	int64_t seq;
	int64_t delivery_count; /* as wide as the seq, so that the key has no padding */
};

struct entry {
	struct message *message; /* owned */
	struct entry_key key;
	size_t stream;          /* index in the admission */
	enum ordering ordering; /* of its stream */
	enum entry_state state;
	TAILQ_ENTRY(entry) link; /* the list of its state */
	UT_hash_handle hh;       /* by key */

	struct handler_queue *queue; /* of the handler it is routed to; NULL = none */
	struct lane *lane;           /* NULL: it has no order */
	TAILQ_ENTRY(entry) lane_link;
	struct in_lane in_lane;
	bool born; /* in the list of born-claimed entries */
	TAILQ_ENTRY(entry) born_link;
	struct open_claim *claim; /* the claim that brought it; NULL if born claimed */

	struct reservation *reservation; /* of a suspect that is RESERVED or OPEN */
	bool raising;                    /* RESERVED: its crash count is being raised */
	bool raised;                     /* its crash_count is raised in the table */

	bool in_flight; /* counts against max_in_flight until settled */
	struct delivery delivery;

	enum entry_end end;
	struct settle_row verdict;
	struct verdict_texts texts;
	size_t emit_bytes; /* counted in order.emit_bytes */
	struct settling settling;
};

TAILQ_HEAD(entry_list, entry);

/* True when the row of an entry with a verdict goes back to the table. A message that was answered `settled` counts as
 * completed until the table says that it is not. */
static inline bool entry_is_outgoing(const struct entry *entry)
{
	return entry->verdict.outcome >= SETTLE_WAITING && entry->end != END_SETTLED;
}

/* True when the entry has a lane: that of its key, or that of its stream. */
static inline bool entry_is_ordered(const struct entry *entry)
{
	return entry->ordering == ORDERING_PARTITION ||
	       (entry->ordering == ORDERING_KEY && message_is_keyed(entry->message));
}

/* Together with the stream this names the lane. */
static inline uint64_t entry_lane_hash(const struct entry *entry)
{
	return entry->ordering == ORDERING_PARTITION ? 0 : entry->message->key_hash;
}

#endif
