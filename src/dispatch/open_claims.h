/*
 * Which claims from the table may still hold rows: every claim from when it is given until its answer
 * is here and the last row it brought is settled. The lowest of their numbers is this instance's
 * low_claim: below it nothing has to be rescued when the instance dies (rule R3). Pure. One thread,
 * but open_claims_low().
 */
#ifndef DISPATCH_OPEN_CLAIMS_H
#define DISPATCH_OPEN_CLAIMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct open_claim {
	int64_t number;
	size_t rows;   /* held and unsettled */
	bool arrived;  /* nothing of it is under way, whatever became of it */
	bool answered; /* all its rows are known */
	TAILQ_ENTRY(open_claim) link;
};
TAILQ_HEAD(open_claim_list, open_claim);

struct open_claims {
	struct open_claim_list list; /* by number */
	int64_t given;               /* claims ever given */
	size_t under_way;            /* of those, not arrived */
	_Atomic int64_t low;
};

void open_claims_init(struct open_claims *claims);
void open_claims_fini(struct open_claims *claims);
/* A claim is about to be given: returns its number; 0: no memory. */
int64_t open_claims_give(struct open_claims *claims);
/* It is back from the database: with rows, without, or with a fault. */
void open_claims_arrived(struct open_claims *claims, int64_t number);
/* All claims up to this one have arrived. */
int64_t open_claims_arrived_to(const struct open_claims *claims);
/* Its answer is here: all rows it brought are held from now on. */
void open_claims_answered(struct open_claims *claims, int64_t number);
/* A row of it is held. Borrowed until released; NULL when the number is not open. */
struct open_claim *open_claims_hold(struct open_claims *claims, int64_t number);
/* A row of it is settled, or given up. NULL: nothing. */
void open_claims_release(struct open_claims *claims, struct open_claim *claim);
/* Claims whose outcome was unknown are resolved: the rows memory does not hold were given back. Nothing
 * may be under way. */
void open_claims_resolved(struct open_claims *claims);
/* Any thread. */
int64_t open_claims_low(const struct open_claims *claims);

#endif
