/* See open_claims.h. A list by number; the lowest number is published after each change, for the heartbeat. */
#include "dispatch/order/open_claims.h"

#include <stdlib.h>

static void publish(struct open_claims *claims)
{
	const struct open_claim *lowest = TAILQ_FIRST(&claims->list);

	atomic_store(&claims->low, lowest != NULL ? lowest->number : claims->given + 1);
}

void open_claims_init(struct open_claims *claims)
{
	TAILQ_INIT(&claims->list);
	claims->given = 0;
	claims->under_way = 0;
	publish(claims);
}

void open_claims_fini(struct open_claims *claims)
{
	struct open_claim *claim;

	while ((claim = TAILQ_FIRST(&claims->list)) != NULL) {
		TAILQ_REMOVE(&claims->list, claim, link);
		free(claim);
	}
}

int64_t open_claims_give(struct open_claims *claims)
{
	struct open_claim *claim = calloc(1, sizeof(*claim));

	if (claim == NULL)
		return 0;
	claim->number = ++claims->given;
	claims->under_way++;
	TAILQ_INSERT_TAIL(&claims->list, claim, link);
	publish(claims);
	return claim->number;
}

/* Only few claims are open at a time, and the one to find is mostly among the last. */
static struct open_claim *find(struct open_claims *claims, int64_t number)
{
	struct open_claim *claim;

	TAILQ_FOREACH_REVERSE(claim, &claims->list, open_claim_list, link)
	{
		if (claim->number <= number)
			return claim->number == number ? claim : NULL;
	}
	return NULL;
}

static void end_if_over(struct open_claims *claims, struct open_claim *claim)
{
	if (!claim->answered || claim->rows > 0)
		return;
	TAILQ_REMOVE(&claims->list, claim, link);
	free(claim);
	publish(claims);
}

void open_claims_arrived(struct open_claims *claims, int64_t number)
{
	struct open_claim *claim = find(claims, number);

	if (claim == NULL || claim->arrived)
		return;
	claim->arrived = true;
	claims->under_way--;
}

int64_t open_claims_arrived_to(const struct open_claims *claims)
{
	const struct open_claim *claim;
	size_t left = claims->under_way;
	int64_t number = claims->given;

	TAILQ_FOREACH_REVERSE(claim, &claims->list, open_claim_list, link)
	{
		if (left == 0)
			break;
		if (claim->arrived)
			continue;
		number = claim->number - 1;
		left--;
	}
	return number;
}

void open_claims_answered(struct open_claims *claims, int64_t number)
{
	struct open_claim *claim = find(claims, number);

	if (claim == NULL)
		return;
	claim->answered = true;
	end_if_over(claims, claim);
}

struct open_claim *open_claims_hold(struct open_claims *claims, int64_t number)
{
	struct open_claim *claim = find(claims, number);

	if (claim != NULL)
		claim->rows++;
	return claim;
}

void open_claims_release(struct open_claims *claims, struct open_claim *claim)
{
	if (claim == NULL)
		return;
	claim->rows--;
	end_if_over(claims, claim);
}

void open_claims_resolved(struct open_claims *claims)
{
	struct open_claim *claim = TAILQ_FIRST(&claims->list);
	struct open_claim *next;

	for (; claim != NULL; claim = next) {
		next = TAILQ_NEXT(claim, link);
		claim->answered = true;
		end_if_over(claims, claim);
	}
}

int64_t open_claims_low(const struct open_claims *claims)
{
	return atomic_load(&claims->low);
}
