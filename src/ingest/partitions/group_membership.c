/*
 * Decides whether this instance is a member of the consumer group. The reasons to be out of it are in
 * reason_to_leave(). Everything else here explains a wait in the log: the coordinator does not say why it assigns
 * nothing.
 */
#include "ingest/partitions/flow.h"
#include "ingest/partitions/steps.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/kafka/consumer_conf.h"

#define WAITING_LOG_MS 5000 /* a normal rebalance takes less time */
#define REPEAT_MS      60000
#define SESSION_MS     "45000" /* the defaults of librdkafka */
#define POLL_MS        "300000"

/* Why this instance must be out of the group; NULL = it may be a member. */
static const char *reason_to_leave(const struct ingest *ingest)
{
	const struct health *health = ingest->options.health;
	int64_t heartbeat_ms = atomic_load(&health->heartbeat_ms);

	if (heartbeat_ms == 0 ||
		clock_now_ms() - heartbeat_ms > ingest->options.config->worker.lease)
		return "no heartbeat in PostgreSQL for the duration of a lease";
	if (clock_now_ms() < atomic_load(&health->join_after_ms))
		return "the client of the previous instance run was refused";
	return atomic_load(&health->away) ? "another member has a handler that is missing here"
					  : NULL;
}

static void join(struct ingest *ingest)
{
	struct err err = ERR_INIT;

	if (consumer_subscribe(ingest->consumer, &ingest->options.config->kafka_topics, &err) < 0) {
		ingest_fault(ingest, &err);
		return;
	}
	ingest->membership.joined = true;
	ingest->membership.waiting_since_ms = clock_now_ms();
	ingest->membership.waiting_log_ms = WAITING_LOG_MS;
	log_info("group_joining", LOG_STR("group", consumer_group(ingest->consumer)));
}

/* The next poll calls `revoked` for all assigned partitions. */
static void leave(struct ingest *ingest, const char *reason)
{
	log_warn("group_left", LOG_STR("reason", reason),
		LOG_STR("next", "joins again when the reason no longer applies"));
	consumer_unsubscribe(ingest->consumer);
	ingest->membership.joined = false;
	atomic_store(&ingest->options.health->group_joined, false);
}

/* The coordinator may wait for one of two reasons, and it does not tell which one applies. */
static void format_next(const struct config *config, char *next, size_t size)
{
	const char *session = consumer_conf_value(config, "session.timeout.ms", SESSION_MS);
	const char *poll = consumer_conf_value(config, "max.poll.interval.ms", POLL_MS);
	bool consumers = consumer_conf_brokers_assign(config);

	(void)snprintf(next, size,
		"no action is necessary: the broker has assigned no partitions yet. It may wait "
		"for members that were killed or cut off, at most %s%s%s for each that was killed "
		"while it joined, or for other members to give up theirs, at most "
		"max.poll.interval.ms (%s ms)",
		consumers ? "the broker's group.consumer.session.timeout.ms"
			  : "session.timeout.ms (",
		consumers ? "" : session, consumers ? "" : " ms)", poll);
}

/* Logs why nothing is read while the group rebalances, and again every minute. The time counts only while a broker is
 * reachable; observe.c reports unreachable brokers. */
static void log_waiting(struct ingest *ingest)
{
	const struct health *health = ingest->options.health;
	bool joined = atomic_load(&health->group_joined);
	int64_t now_ms = clock_now_ms();
	char next[400];

	if (joined)
		ingest->membership.waiting_log_ms = WAITING_LOG_MS;
	if (joined || !atomic_load(&health->broker_ok))
		ingest->membership.waiting_since_ms = now_ms;
	if (now_ms - ingest->membership.waiting_since_ms < ingest->membership.waiting_log_ms)
		return;
	ingest->membership.waiting_log_ms += REPEAT_MS;
	format_next(ingest->options.config, next, sizeof(next));
	log_info("group_waiting", LOG_STR("group", consumer_group(ingest->consumer)),
		LOG_INT("since_s", (now_ms - ingest->membership.waiting_since_ms) / 1000),
		LOG_STR("next", next));
}

void group_membership_step(struct ingest *ingest)
{
	const char *reason = reason_to_leave(ingest);

	if (flow_is_halted(ingest))
		return;
	if (ingest->membership.joined && reason != NULL)
		leave(ingest, reason);
	else if (!ingest->membership.joined && reason == NULL)
		join(ingest);
	else if (ingest->membership.joined)
		log_waiting(ingest);
}
