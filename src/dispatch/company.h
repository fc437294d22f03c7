/*
 * A transaction costs nearly the same for one verdict as for hundreds, so verdicts wait a moment for company. Whether
 * they have waited enough is decided here. Pure; any thread.
 */
#ifndef DISPATCH_COMPANY_H
#define DISPATCH_COMPANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPANY_ENOUGH    1000 /* more cost no less for each */
#define COMPANY_WAIT_MS   5
#define COMPANY_LONGER_MS 20
#define COMPANY_BUSY_FROM 256 /* delivered and not settled, or about to be delivered */

struct company {
	size_t verdicts;  /* that wait */
	size_t in_flight; /* delivered and not settled, those that wait among them */
	size_t most;      /* that may be: inbox.max_in_flight */
	size_t ready;     /* to be delivered next */
	/* Messages in memory that can only be delivered after others are settled. */
	size_t behind;
	/* Some are ready for which max_in_flight has no room, and no settle is under way that makes some. */
	bool held_up;
	int64_t since_ms; /* when the first of the verdicts came */
};

/* True when they are settled now. Else it is to be asked again after COMPANY_WAIT_MS at the latest. */
bool company_is_enough(const struct company *company, int64_t now_ms);

#endif
