#include "ingest/membership.h"

#include "base/clock.h"
#include "base/log.h"

/* Why to be out of the group; NULL = in. */
static const char *reason_to_leave(const struct ingest *ingest)
{
	const struct health *health = ingest->options.health;
	int64_t heartbeat_ms = atomic_load(&health->heartbeat_ms);

	if (heartbeat_ms == 0 ||
		clock_now_ms() - heartbeat_ms > ingest->options.config->worker.lease)
		return "no heartbeat in PostgreSQL for a lease";
	return atomic_load(&health->away) ? "a handler is lacking here that another member has"
					  : NULL;
}

static void join(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (consumer_subscribe(ingest->consumer, &ingest->options.config->kafka_topics, &err) < 0) {
		ingest_fault(ingest, &err);
		return;
	}
	ingest->member = true;
	log_info("group_joining", LOG_STR("group", consumer_group(ingest->consumer)));
}

/* Kafka's `revoked` event, for all that is assigned, comes with the next poll. */
static void leave(struct ingest *ingest, const char *reason)
{
	log_warn("group_left", LOG_STR("reason", reason),
		LOG_STR("next", "joins again as soon as that is over"));
	consumer_unsubscribe(ingest->consumer);
	ingest->member = false;
	atomic_store(&ingest->options.health->group_joined, false);
}

void membership_step(struct ingest *ingest)
{
	const char *reason = reason_to_leave(ingest);

	if ((ingest->holds & HOLD_HALTED) != 0)
		return;
	if (ingest->member && reason != NULL)
		leave(ingest, reason);
	else if (!ingest->member && reason == NULL)
		join(ingest);
}
