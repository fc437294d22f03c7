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
#include "store/leases/instance.h"

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

/* The coordinator may wait for one of these reasons, and it does not tell which one applies. With `group.protocol: consumer`,
 * brokers without this protocol are silent as well, and so is librdkafka up to 2.12 when the brokers refuse to convert the
 * group. */
static void format_next(const struct config *config, char *next, size_t size)
{
	const char *session = consumer_conf_value(config, "session.timeout.ms", SESSION_MS);
	const char *poll = consumer_conf_value(config, "max.poll.interval.ms", POLL_MS);

	if (consumer_conf_brokers_assign(config))
		(void)snprintf(next, size,
			"wait: the broker has assigned no partitions yet. It may wait for members "
			"that were killed or cut off, at most the broker's "
			"group.consumer.session.timeout.ms, or for other members to give up "
			"theirs, at most max.poll.interval.ms (%s ms). If the group has classic "
			"members with the strategy cooperative-sticky, stop them: the brokers "
			"cannot convert it. Brokers before Kafka 4.0 do not have this protocol: "
			"remove kafka.group.protocol",
			poll);
	else
		(void)snprintf(next, size,
			"no action is necessary: the broker has assigned no partitions yet. It may "
			"wait for members that were killed or cut off, at most session.timeout.ms "
			"(%s ms) for each that was killed while it joined, or for other members to "
			"give up theirs, at most max.poll.interval.ms (%s ms)",
			session, poll);
}

/* Logs why nothing is read while the group rebalances, and again every minute. The time counts only while a broker is
 * reachable; observe.c reports unreachable brokers. */
static void log_waiting(struct ingest *ingest)
{
	const struct health *health = ingest->options.health;
	bool joined = atomic_load(&health->group_joined);
	int64_t now_ms = clock_now_ms();
	char next[700];

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

/* Kafka does not tell who the other member is: with the classic protocol it keeps the client.id and the host of the first
 * member that had the id. The table knows the sidecars of this group (rule R18). Without the database there is no name. */
static void format_id_in_use(struct ingest *ingest, char *out, size_t size)
{
	const struct config *config = ingest->options.config;
	const char *id = consumer_conf_value(config, "group.instance.id", "");
	const char *group = consumer_group(ingest->consumer);
	struct err err = ERR_INIT;
	char names[256] = "";

	/* the connection may rest */
	if (!ingest->outage.down && db_open(ingest->db, &err) == 0)
		(void)instance_same_member(
			ingest->db, ingest->options.instance, names, sizeof(names), &err);
	if (names[0] != '\0')
		(void)snprintf(out, size,
			"kafka.group.instance.id \"%s\" is in use by another member of the group "
			"\"%s\", the sidecar \"%s\": give each sidecar an id of its own",
			id, group, names);
	else
		(void)snprintf(out, size,
			"kafka.group.instance.id \"%s\" is in use by another member of the group "
			"\"%s\". No other running sidecar is known to have it: %sfind the program "
			"that has it",
			id, group,
			consumer_conf_brokers_assign(config)
				? "if this one was killed, the session of the killed one ends by "
				  "itself (the brokers' group.consumer.session.timeout.ms); if "
				  "not, "
				: "");
}

void group_membership_ended(struct ingest *ingest, const struct client_end *end)
{
	char why[1024];
	char next[1200];

	if (end->id_in_use)
		format_id_in_use(ingest, why, sizeof(why));
	else
		(void)snprintf(why, sizeof(why), "%s", end->meaning);
	(void)snprintf(next, sizeof(next), "%s; a new client joins the group in %d s", why,
		CONSUMER_PAUSE_MS / 1000);
	log_warn("kafka_client_ended", LOG_STR("code", end->code), LOG_STR("error", end->error),
		LOG_STR("next", next));
	ingest_rejoins(ingest);
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
