/*
 * Implements observe.h: metrics and health of ingest that no other step updates.
 *
 * Whether a broker is reachable: librdkafka reports ALL_BROKERS_DOWN when every broker to which it had connected has
 * failed. Brokers to which it never had a reason to connect do not count. Received records prove nothing either,
 * since they may have been fetched earlier. Therefore a failure only raises a doubt, and a request that any broker can
 * answer resolves it.
 */
#include "ingest/observe.h"

#include <stdio.h>

#include "base/time/clock.h"
#include "ingest/batch/store_batch.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/commands/topic_retention.h"
#include "report/meters.h"

#define OBSERVE_EVERY_MS 2000
#define ENDS_EVERY_MS    10000
#define ENDS_WAIT_MS     500
#define ANSWER_MS        500
/* the first request may have gone to the broker that has just failed, or to a slow one */
#define UNANSWERED       2

/* --- Brokers ----------------------------------------------------------------------------------- */

void observe_broker_failed(void *arg, bool all)
{
	struct ingest *ingest = arg;

	ingest->observer.broker_doubted = true;
	if (all)
		atomic_store(&ingest->options.health->broker_ok, false);
}

void observe_soon(struct ingest *ingest)
{
	ingest->observer.at_ms = 0;
}

/* Sends a request when there is a doubt and waits half a second for the answer. After the second request without an
 * answer no broker is reachable; after that each call checks whether one is reachable again. */
static void check_brokers(struct ingest *ingest)
{
	atomic_bool *ok = &ingest->options.health->broker_ok;

	if (!ingest->observer.broker_doubted && atomic_load(ok))
		return;
	if (broker_query_reaches_broker(consumer_handle(ingest->consumer), ANSWER_MS)) {
		ingest->observer.broker_doubted = false;
		ingest->observer.unanswered = 0;
		atomic_store(ok, true);
	} else if (++ingest->observer.unanswered >= UNANSWERED) {
		ingest->observer.unanswered = UNANSWERED;
		atomic_store(ok, false);
	}
}

/* --- Lag --------------------------------------------------------------------------------------- */

static void show_lag(struct ingest *ingest, const struct partition *partition, int64_t end)
{
	char label[16];

	if (end < 0)
		return;
	(void)snprintf(label, sizeof(label), "%d", (int)partition->partition);
	metric_set(metrics_get(ingest->options.metrics, METER_KAFKA_LAG, partition->topic, label),
		end > partition->read.next ? (double)(end - partition->read.next) : 0);
}

static bool is_standing(const struct partition *partition)
{
	return partition->state == PARTITION_READING && !partition->flowing;
}

/* A paused partition is not fetched, so no fetch response shows the end of its log. */
static void show_standing(struct ingest *ingest)
{
	const struct log_query query = { BROKER_LOG_END, ENDS_WAIT_MS };
	int64_t now_ms = clock_now_ms();
	struct partition_offset *items;
	size_t count = 0;

	if (now_ms < ingest->observer.ends_at_ms ||
		!atomic_load(&ingest->options.health->broker_ok))
		return;
	items = partitions_select(&ingest->partitions, is_standing, &count);
	if (count == 0)
		return;
	ingest->observer.ends_at_ms = now_ms + ENDS_EVERY_MS;
	if (broker_query_log(consumer_handle(ingest->consumer), query, items, count, NULL) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (items[i].error == NULL)
			show_lag(ingest,
				partitions_find(
					&ingest->partitions, items[i].topic, items[i].partition),
				items[i].offset);
	}
}

static void show_lags(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (partition->state == PARTITION_READING && partition->flowing)
			show_lag(ingest, partition,
				broker_query_high(consumer_handle(ingest->consumer),
					partition->topic, partition->partition));
	}
	show_standing(ingest);
}

/* --- A round ----------------------------------------------------------------------------------- */

void observe_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct health *health = ingest->options.health;

	metric_set(ingest->observer.paused,
		(double)(partitions_number(&ingest->partitions, partition_is_assigned) -
			 partitions_number(&ingest->partitions, partition_is_flowing)));
	if (!store_batch_has_work(ingest) && !ingest->outage.down)
		atomic_store(&health->stored_ms, now_ms);
	if (now_ms < ingest->observer.at_ms)
		return;
	ingest->observer.at_ms = now_ms + OBSERVE_EVERY_MS;
	show_lags(ingest);
	consumer_refresh_credentials(ingest->consumer, ingest->options.config);
	topic_retention_poll(&ingest->observer.retention, ingest->options.config);
	check_brokers(ingest);
}
