/*
 * The claims that may still hold rows. Each claim gets a number, which its rows carry in the table. A claim is open
 * from the moment it is given until its answer has arrived and the last row it brought is settled. The lowest number
 * of the open claims is the `low_claim` of this instance: a rescue needs no row of an earlier claim (rule R3).
 *
 * A claim whose outcome is unknown stays open until a rescue has given its rows back.
 * Pure. One thread, except open_claims_low().
 */
#ifndef DISPATCH_ORDER_OPEN_CLAIMS_H
#define DISPATCH_ORDER_OPEN_CLAIMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct open_claim {
	int64_t number;
	size_t rows;   /* its rows that are in memory and not settled */
	bool arrived;  /* its job has ended, with or without an answer */
	bool answered; /* its answer is known: memory holds all its rows */
	TAILQ_ENTRY(open_claim) link;
};
TAILQ_HEAD(open_claim_list, open_claim);

struct open_claims {
	struct open_claim_list list; /* by number */
	int64_t given;               /* the number of the latest claim */
	size_t under_way;            /* claims that have not arrived */
	_Atomic int64_t low;
};

void open_claims_init(struct open_claims *claims);
void open_claims_fini(struct open_claims *claims);
/* Opens a claim that is about to be given to a worker. Returns its number; 0: no memory. */
int64_t open_claims_give(struct open_claims *claims);
/* The job of the claim has ended: with rows, without rows, or with a fault. */
void open_claims_arrived(struct open_claims *claims, int64_t number);
/* The highest number up to which all claims have arrived. */
int64_t open_claims_arrived_to(const struct open_claims *claims);
/* The answer of the claim is complete: all its rows are held (open_claims_hold) or were given up. */
void open_claims_answered(struct open_claims *claims, int64_t number);
/* One more row of the claim is in memory. The result is borrowed until it is released. NULL: the number is not open. */
struct open_claim *open_claims_hold(struct open_claims *claims, int64_t number);
/* A row of the claim is settled or given up. NULL is allowed. */
void open_claims_release(struct open_claims *claims, struct open_claim *claim);
/* A rescue has given back all rows that memory does not hold, so no outcome is unknown any more. No claim may be under
 * way. */
void open_claims_resolved(struct open_claims *claims);
/* low_claim. Any thread. */
int64_t open_claims_low(const struct open_claims *claims);

#endif
