/*
 * Implements brokers.h.
 */
#include "ingest/brokers.h"

#include "ingest/kafka/broker_query.h"
#include "ingest/state.h"

#define ANSWER_MS  500
/* the first request may have gone to the broker that has just failed, or to a slow one */
#define UNANSWERED 2

void brokers_failed(void *arg, bool all)
{
	struct ingest *ingest = arg;

	ingest->broker_doubted = true;
	if (all)
		atomic_store(&ingest->options.health->broker_ok, false);
}

void brokers_check(struct ingest *ingest)
{
	atomic_bool *ok = &ingest->options.health->broker_ok;

	if (!ingest->broker_doubted && atomic_load(ok))
		return;
	if (broker_query_reaches_broker(consumer_handle(ingest->consumer), ANSWER_MS)) {
		ingest->broker_doubted = false;
		ingest->unanswered = 0;
		atomic_store(ok, true);
	} else if (++ingest->unanswered >= UNANSWERED) {
		ingest->unanswered = UNANSWERED;
		atomic_store(ok, false);
	}
}
