#include "dispatch/company.h"

/* So much is under way that hundreds of verdicts come in a moment, and little waits for a settle to become next
 * of its key. */
static bool is_busy(const struct company *company)
{
	return company->in_flight >= COMPANY_BUSY_FROM && company->behind < company->in_flight;
}

/* Most of what is in flight waits here: little more can come before it is settled. */
static bool is_most(const struct company *company)
{
	return company->verdicts * 2 >= company->in_flight;
}

bool company_is_enough(const struct company *company, int64_t now_ms)
{
	if (company->verdicts >= COMPANY_ENOUGH)
		return true;
	if (!is_busy(company))
		return is_most(company) || now_ms - company->since_ms >= COMPANY_WAIT_MS;
	/* Behind a settle under way nothing stands still: its end brings new deliveries. */
	return (company->settles == 0 && is_most(company)) ||
	       now_ms - company->last_ms >= COMPANY_WAIT_MS ||
	       now_ms - company->since_ms >= COMPANY_LONGER_MS;
}
