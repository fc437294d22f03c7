#include "dispatch/company.h"

/* So much is under way that hundreds of verdicts come in a moment, and little waits for a settle: neither the next
 * of many keys, nor what max_in_flight has no room for. */
static bool is_busy(const struct company *company)
{
	size_t coming = company->in_flight + company->ready;

	return coming >= COMPANY_BUSY_FROM && company->behind < coming && !company->held_up;
}

/* Most of what is in flight waits here: little more can come before it is settled. */
static bool is_most(const struct company *company)
{
	return company->verdicts * 2 >= company->in_flight;
}

/* The other half of what may be in flight keeps the handlers busy meanwhile. */
static bool is_half_of_all(const struct company *company)
{
	return company->verdicts * 2 >= company->most;
}

bool company_is_enough(const struct company *company, int64_t now_ms)
{
	int64_t waited_ms = now_ms - company->since_ms;

	if (company->verdicts >= COMPANY_ENOUGH)
		return true;
	if (is_busy(company))
		return is_half_of_all(company) || waited_ms >= COMPANY_LONGER_MS;
	return is_most(company) || waited_ms >= COMPANY_WAIT_MS;
}
