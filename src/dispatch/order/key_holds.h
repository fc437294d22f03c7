/*
 * Key holds (rule R12). When this instance acquires a partition, other instances can still hold rows of it: a handler
 * is at work, or the instance died and its lease still runs. A delivery of a later row of the same key would
 * break the order. So nothing of such a key is delivered here, and arriving messages of it are parked.
 *
 * A job reads the state of these rows a few times a second. If a row is processed or dead, its hold ends. If it waits
 * again, its lane notes that it is in the table, and claims continue the lane from there.
 * Dispatch thread only.
 */
#ifndef DISPATCH_ORDER_KEY_HOLDS_H
#define DISPATCH_ORDER_KEY_HOLDS_H

#include "model/message/handover.h"
#include "store/claims/other_claims.h"

struct order;

struct key_holds {
	struct held_row *items; /* rows of our partitions that other instances hold */
	size_t count;
	size_t room; /* allocated items */
	size_t next; /* the item at which the next check starts */
	int64_t check_at_ms;
};

/* Partitions were acquired: holds the keys of the rows that other instances still hold. Without memory for a hold the
 * order of its key would break, so the process ends instead, and its rows are rescued. */
void key_holds_add(struct order *order, const struct handover *handover);
/* Partitions were revoked: forgets their holds. */
void key_holds_drop(struct order *order);
/* The rows to check now. Gives an array of seqs in rising order. 0: there are none, it is too early, or no memory. */
size_t key_holds_to_check(struct order *order, int64_t now_ms, int64_t **seqs);
/* They were read: releases the keys whose rows are free. True: a row of one of them waits in the table. */
bool key_holds_checked(struct order *order, const struct other_claims_rows *rows);
void key_holds_fini(struct key_holds *holds);

#endif
