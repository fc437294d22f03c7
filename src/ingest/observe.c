/*
 * Implements observe.h: metrics and health of ingest that no other step updates.
 *
 * Whether a broker is reachable: librdkafka reports ALL_BROKERS_DOWN when every broker to which it had connected has
 * failed. Brokers to which it never had a reason to connect do not count. Received records prove nothing either,
 * since they may have been fetched earlier. Therefore a failure only raises a doubt, and a request that any broker can
 * answer resolves it.
 *
 * The log: an outage of all brokers begins with ALL_BROKERS_DOWN or a request without an answer, and ends with an
 * answer. While others answer, the loss of a broker begins with the second fault (a broker also closes connections that
 * are idle), and ends after a minute without a fault: librdkafka reports a broker that stays away every 30 s.
 */
#include "ingest/observe.h"

#include <stdio.h>

#include "base/log.h"
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
#define LOST_BROKER_MS   60000

/* --- Brokers ----------------------------------------------------------------------------------- */

static void log_fault(struct ingest *ingest, const struct broker_fault *fault)
{
	struct outage_log *brokers = &ingest->observer.brokers;
	int64_t now_ms = clock_now_ms();

	if (outage_log_failed(brokers, (unsigned)fault->kind, now_ms))
		log_warn("kafka_error", LOG_STR("code", fault->code),
			LOG_STR("error", fault->error), LOG_STR("next", fault->next),
			LOG_OUTAGE(brokers, now_ms));
}

static void log_all_down(struct ingest *ingest)
{
	const struct lost_broker *lost = &ingest->observer.lost;
	const struct broker_fault fault = {
		.kind = BROKERS_ALL_DOWN,
		.code = "_ALL_BROKERS_DOWN",
		.error = lost->error[0] != '\0' ? lost->error : "no broker answers",
		.next = lost->next != NULL ? lost->next : "librdkafka retries",
	};

	log_fault(ingest, &fault);
}

static void log_back(struct ingest *ingest, int64_t end_ms)
{
	struct outage_log ended;

	if (outage_log_ended(&ingest->observer.brokers, &ended))
		log_info("kafka_back", LOG_INT("failures", ended.failures),
			LOG_OUTAGE_ENDED(&ended, end_ms));
	ingest->observer.lost = (struct lost_broker){ .faults = 0 };
}

static void raise_doubt(struct observer *observer)
{
	if (observer->doubt == 0)
		observer->doubt = 1;
}

void observe_broker_failed(void *arg, const struct broker_fault *fault)
{
	struct ingest *ingest = arg;
	struct lost_broker *lost = &ingest->observer.lost;

	raise_doubt(&ingest->observer);
	if (fault->kind == BROKERS_ALL_DOWN) {
		atomic_store(&ingest->options.health->broker_ok, false);
		log_all_down(ingest);
		return;
	}
	lost->faults++;
	lost->fresh = true;
	lost->fault_ms = clock_now_ms();
	lost->next = fault->next;
	(void)snprintf(lost->error, sizeof(lost->error), "%s", fault->error);
	if (fault->kind != BROKER_LOST)
		log_fault(ingest, fault);
}

/* Other brokers answer. The faults of a broker that stays away come seldom, so they count until there was none for a
 * while. */
static void log_lost_broker(struct ingest *ingest)
{
	struct lost_broker *lost = &ingest->observer.lost;
	const struct broker_fault fault = { BROKER_LOST, "_TRANSPORT", lost->error,
		"other brokers answer; librdkafka retries" };

	if (lost->fresh && lost->faults > 1)
		log_fault(ingest, &fault);
	else if (lost->faults > 0 && clock_now_ms() - lost->fault_ms > LOST_BROKER_MS)
		log_back(ingest, lost->fault_ms);
	lost->fresh = false;
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

	if (ingest->observer.doubt == 0 && atomic_load(ok)) {
		log_lost_broker(ingest);
		return;
	}
	raise_doubt(&ingest->observer);
	if (broker_query_reaches_broker(consumer_handle(ingest->consumer), ANSWER_MS)) {
		ingest->observer.doubt = 0;
		if (atomic_exchange(ok, true))
			log_lost_broker(ingest);
		else
			log_back(ingest, clock_now_ms());
	} else if (++ingest->observer.doubt > UNANSWERED) {
		ingest->observer.doubt = UNANSWERED;
		atomic_store(ok, false);
		log_all_down(ingest);
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

/* Without the partitions of topics that an operator has stopped. */
static void show_paused(struct ingest *ingest)
{
	struct admission *admission = ingest->options.admission;
	bool stops = admission_stops_reading(admission);
	size_t count = 0;

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (partition_is_assigned(partition) && !partition_is_flowing(partition) &&
			(!stops || admission_reads(admission, partition->topic)))
			count++;
	}
	metric_set(ingest->observer.paused, (double)count);
}

/* --- A round ----------------------------------------------------------------------------------- */

void observe_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct health *health = ingest->options.health;

	show_paused(ingest);
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
