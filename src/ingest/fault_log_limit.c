/*
 * Implements fault_log_limit.h.
 */
#include "ingest/fault_log_limit.h"

bool fault_log_limit_pass(struct fault_log_limit *limit, int64_t now_ms, int64_t *held)
{
	bool pass;

	(void)pthread_mutex_lock(&limit->lock);
	if (limit->passed == 0 || now_ms - limit->since_ms >= limit->every_ms) {
		limit->since_ms = now_ms;
		limit->passed = 0;
	}
	pass = limit->passed < limit->burst;
	if (pass) {
		limit->passed++;
		*held = limit->held;
		limit->held = 0;
	} else {
		limit->held++;
	}
	(void)pthread_mutex_unlock(&limit->lock);
	return pass;
}
