/*
 * The messages in memory, as a state machine. Every claimed message is one entry from its arrival until its verdict is
 * committed; entry.h has the diagram. The rooms above pull from the lists of this one:
 *
 *	handler_queue.ready, .suspects   the scheduler delivers them
 *	order.verdicts                   the settler writes them to the table
 *	lanes.claimable                  the claimer claims their next rows
 *	order.retry_due_at_ms            the claimer claims due rows then
 *	order.suspects_due               the scheduler continues with suspects that reserve a connection
 *
 * Nothing here calls another room, writes to a socket or waits for PostgreSQL. Dispatch thread only, except
 * entries_bounds() and open_claims_low().
 * Errors: a function that finds no memory leaves the state as it was, and a later round of the loop tries again,
 * unless its comment says otherwise.
 */
#ifndef DISPATCH_ORDER_ORDER_H
#define DISPATCH_ORDER_ORDER_H

#include <pthread.h>

#include "dispatch/context.h"
#include "dispatch/order/entry.h"
#include "dispatch/order/handler_queues.h"
#include "dispatch/order/key_holds.h"
#include "dispatch/order/lanes.h"
#include "dispatch/order/open_claims.h"
#include "dispatch/order/retry_policy.h"
#include "model/routing/routing.h"
#include "store/leases/instance.h"

/* Entries with a verdict that is not in the table yet, and in no job. */
struct verdict_list {
	struct entry_list entries;
	size_t count;
	int64_t since_ms; /* when the first of them was added */
	int64_t added;    /* how many were added since the settler last counted them */
	size_t deferred; /* entries in no list, each waits for a verdict before it in its lane (struct settling) */
	/* What came since the list was empty. */
	bool urgent;     /* a verdict for which the settler must not wait for others */
	bool prompt;     /* a verdict that somebody waits for; see settle_batching.h */
	size_t stopping; /* verdicts that stop their lane until they are committed */
};

/* What the heartbeat writes to inbox_instances, so that a rescue of this instance finds all its rows (rule R3). */
struct low_bounds {
	pthread_mutex_t lock; /* protects `published`, which the heartbeat thread reads */
	struct bounds published;
	int64_t max_seq; /* the highest seq of a born-claimed row so far */
	/* The lowest born-claimed seq that was dropped for lack of memory; INT64_MAX = none. */
	int64_t refused_seq;
};

struct order {
	struct context *context;
	struct retry_rules rules; /* the general ones: see order_rules() */
	struct routing *routing;  /* the subscriptions of all known handlers */
	bool routing_complete;    /* the known handlers have been read: messages can be routed */
	struct handler_queues queues;
	struct entry *entries;  /* all messages in memory, by claim */
	struct entry_list born; /* those that were born claimed, by seq */
	size_t entry_count;
	struct lanes lanes;
	struct key_holds key_holds;
	struct open_claims open_claims; /* claims that may still hold rows; numbers the claims */
	uint64_t revocations;           /* how often a partition was revoked so far */
	struct verdict_list verdicts;
	size_t emit_bytes;       /* of the events in verdicts that the table does not have */
	int64_t retry_due_at_ms; /* when the first known retry is due; INT64_MAX = none is known */
	/* A suspect that reserves a connection may go on: the connection is empty, or its crash count is raised. */
	bool suspects_due;
	struct low_bounds bounds;
	struct metric *claim_lost;
};

/* Starts without entries. All rows of this instance have the seq `first_low_seq` or a higher one. FAULT_MEMORY. */
int order_init(
	struct order *order, struct context *context, int64_t first_low_seq, struct err *err);
/* Frees all entries without settling them, and everything else but the handler queues. */
void order_fini(struct order *order);
/* Uses the retry rules and the limits of this configuration from now on. */
void order_set_rules(struct order *order, const struct config *config);
/* The retry rules for messages of this consumer. */
/* The rules of a consumer that the configuration lists, perhaps under an earlier name; otherwise NULL. */
const struct consumer_rules *order_consumer_rules(const struct order *order, const char *consumer);
struct retry_rules order_rules(const struct order *order, const char *consumer);

/*
 * Where a message comes from, and whether its place in the order is known. ORDER_UNKNOWN: the table may hold an
 * older row of its key that memory does not know about. Such a message is parked if it is ordered; the table
 * then decides when it is its turn.
 */
enum entry_origin {
	ENTRY_BORN,               /* the INSERT claimed it: it counts for low_seq */
	ENTRY_BORN_ORDER_UNKNOWN, /* the same, and a claim was lost or a partition revoked meanwhile */
	ENTRY_CLAIMED,            /* a claim took it from the table */
	ENTRY_CLAIMED_ORDER_UNKNOWN /* the same, and a batch was lost or a partition revoked meanwhile */
};
/* Admits a claimed message and takes ownership of it. `number`: the claim that brought it; 0 for a born one.
 * Without memory for the entry the row stays claimed in the table, until a rescue finds it. */
void entry_admit(struct order *order, struct message *message, size_t stream,
	enum entry_origin origin, int64_t number);
/* The table has the verdict, or the claim is lost. Frees the entry and starts the next one of its lane, if it waited
 * for this. With a lost claim the later messages of the lane that were delivered meanwhile come again. Behind a message that was
 * answered `settled` and is not completed, the entries go back to the table as in entry_settle(). */
void entry_finish(struct order *order, struct entry *entry, enum settle_status status);
/* Puts a lane head into the queue of its handler. Parks it when no handler subscribes to it. */
void entry_ready(struct order *order, struct entry *entry);
/* Settles the entry as parked. An OPEN entry must be closed first (delivery_close), here and in entry_return(). */
void entry_park(struct order *order, struct entry *entry);
/* Parks a QUEUED or READY entry to free memory. It no longer counts for the share of its handler. */
void entry_evict(struct order *order, struct entry *entry);
/* Settles the entry as waiting, with nothing counted. */
void entry_return(struct order *order, struct entry *entry);
/* The entry behind this one in its lane, if both may be in one ordered batch: it is QUEUED, for the same handler, and no
 * suspect. NULL: there is none, or inbox.next_after is commit. `before`: entries of the lane that the batch has so far;
 * the lane's bound counts them. */
struct entry *entry_next_in_batch(struct order *order, struct entry *entry, size_t before);
/* A RESERVED suspect cannot be delivered now. It goes back to its lane, or to the table. */
void entry_requeue(struct order *order, struct entry *entry);
/* Passes an entry with a verdict to the settler. After `done` the next one of its lane starts, unless it must wait for
 * the COMMIT. If the entry goes back to the table, the entries that are queued behind it in its lane go back too. For a
 * short retry, the first worker.claim_batch of them stay in memory. After `settled` this happens only in
 * entry_finish(), if the message is not completed, or in entries_doubt_completions(). */
void entry_settle(struct order *order, struct entry *entry);
/* The events of a message that was `done` cannot be stored, and neither can its verdict: it is a failed attempt now. The
 * later messages of its lane that were delivered meanwhile come again. */
void entry_refuse_events(struct order *order, struct entry *entry, const char *why);
/* The verdict of this entry cannot be committed now: its row is locked or refused. If the message is older than a few seconds, its
 * lane leaves memory to others. Behind each message of the lane from this one on that was answered `settled`, the entries go
 * back to the table as in entry_settle(). */
void entries_doubt_completions(struct order *order, struct entry *stuck);
/* True while so many events wait for PostgreSQL, and at least the share of this handler is from it, that no answer of it
 * should be read. NULL: a connection without a hello, which has no events. */
bool order_is_full(const struct order *order, const struct handler_queue *queue);
/* The settler cannot commit this verdict now: the one before it in its lane is in another transaction, or waits. Keeps
 * the verdict until that one is finished. */
void entry_defer(struct order *order, struct entry *entry);
/* Ends the reservation of a connection, if the entry has one. */
void entry_unreserve(struct entry *entry);
/* Ends the waits for retries that did not come in time: the entries that waited in memory go back to the table. */
void entries_end_retries(struct order *order, int64_t now_ms);
/* True when the stream is assigned to this instance, and not paused. */
bool order_may_deliver(const struct order *order, size_t stream);
/* Returns what is not delivered of the streams that were revoked or are paused or, with `all`, of all. */
void entries_return_undelivered(struct order *order, bool all);
/* The entry of this claim, or NULL. */
struct entry *entry_find(const struct order *order, int64_t seq, int delivery_count);
/* Computes the bounds that the next heartbeat sends. */
void entries_publish_bounds(struct order *order);
/* Copies them. Any thread. */
void entries_bounds(struct order *order, struct bounds *out);

/* --- tracing.c: without an exporter each function returns at once --- */

/* Adds the span of a delivery. Called when an entry gets its verdict; does nothing if it was not delivered. */
void tracing_delivered(const struct order *order, const struct entry *entry);
/* Adds the span of the settle of one entry, in a transaction that took `took_us`. */
void tracing_settled(const struct order *order, const struct entry *entry,
	enum settle_status status, int64_t took_us);

#endif
