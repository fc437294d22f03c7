/*
 * Implements observe.h: metrics and health of ingest that no other step updates.
 *
 * Whether a broker is reachable: librdkafka reports ALL_BROKERS_DOWN when every broker to which it had connected has
 * failed. Brokers to which it never had a reason to connect do not count. Received records prove nothing either,
 * since they may have been fetched earlier. Therefore a failure only raises a doubt, and requests that any broker can
 * answer resolve it. All requests are background queries, so that no broker can delay the thread.
 *
 * The log: an outage of all brokers begins with ALL_BROKERS_DOWN or a request without an answer, and ends with an
 * answer. While others answer, the loss of a broker begins with the second fault (a broker also closes connections that
 * are idle), and ends after a minute without a fault: librdkafka reports a broker that stays away every 30 s.
 */
#include "ingest/observe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "ingest/batch/collect.h"
#include "ingest/batch/store_batch.h"
#include "ingest/handover_queue.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/commands/topic_retention.h"
#include "ingest/partitions/steps.h"
#include "report/meters.h"

#define OBSERVE_EVERY_MS 2000
#define ENDS_EVERY_MS    10000
#define PROMPT_MS        20 /* an answer of a broker that is well */
#define LOST_BROKER_MS   60000
#define STALL_MS         30000
#define OPEN_MS          60000 /* transaction.timeout.ms of most producers */
/* when librdkafka reports that fetches fail */
#define FAULT_STALL_MS   5000
#define FETCH_FAULT_MS   60000 /* librdkafka repeats it after 30 s */

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

void observe_broker_failed(void *arg, const struct broker_fault *fault)
{
	struct ingest *ingest = arg;
	struct lost_broker *lost = &ingest->observer.lost;

	ingest->observer.doubt_ms = clock_now_ms();
	if (fault->kind == BROKERS_ALL_DOWN) {
		atomic_store(&ingest->options.health->broker_ok, false);
		lost->fault_ms = ingest->observer.doubt_ms; /* of the lost broker, too */
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

/* A query that cannot begin is tried again like one without an answer. */
static void ask(struct ingest *ingest, unsigned parts, int32_t leader, partition_test *about)
{
	const struct query_request request = { consumer_handle(ingest->consumer), parts, leader };
	struct partition_offset *items = calloc(ingest->partitions.count + 1, sizeof(*items));
	const uint64_t id = ingest->observer.queries.begun + 1;
	struct err err = ERR_INIT;
	size_t count = 0;

	for (size_t i = 0; i < ingest->partitions.count && items != NULL; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (!about(partition) || (leader >= 0 && partition->leader != leader))
			continue;
		items[count++] = (struct partition_offset){ partition->topic, partition->partition,
			-1, NULL };
		if (parts == QUERY_END)
			partition->end_query = id;
	}
	if (items != NULL)
		(void)background_query_begin(
			&ingest->observer.queries, &request, items, count, &err);
}

/* While there is a doubt, asks whether any broker answers. */
static void check_brokers(struct ingest *ingest)
{
	struct observer *observer = &ingest->observer;

	if (observer->doubt_ms == 0 && atomic_load(&ingest->options.health->broker_ok)) {
		log_lost_broker(ingest);
		return;
	}
	if (!background_query_is_open(&observer->queries, QUERY_LEADERS, -1))
		ask(ingest, QUERY_LEADERS, -1, partition_is_assigned);
}

/* After several requests without an answer, no broker counts as reachable. An answer does not end a doubt that began after
 * it. */
static void note_reach(struct ingest *ingest, const struct background_query *query)
{
	atomic_bool *ok = &ingest->options.health->broker_ok;

	if (query->err.fault != 0) {
		ingest->observer.doubt_ms = query->answered_ms;
		atomic_store(ok, false);
		log_all_down(ingest);
		return;
	}
	if (query->answered_ms <= ingest->observer.doubt_ms)
		return;
	ingest->observer.doubt_ms = 0;
	if (atomic_exchange(ok, true))
		log_lost_broker(ingest);
	else
		log_back(ingest, clock_now_ms());
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

/* As librdkafka saw it last, open transactions included. */
static int64_t log_high(const struct ingest *ingest, const struct partition *partition)
{
	return broker_query_high(
		consumer_handle(ingest->consumer), partition->topic, partition->partition);
}

static bool is_standing(const struct partition *partition)
{
	return partition->state == PARTITION_READING && !partition->flowing;
}

/* The ends of the logs of the partitions that pass the test. */
static void ask_ends(struct ingest *ingest, partition_test *about)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (about(partition) && partition->leader >= 0 &&
			!background_query_is_open(
				&ingest->observer.queries, QUERY_END, partition->leader))
			ask(ingest, QUERY_END, partition->leader, about);
	}
}

/* A paused partition is not fetched, so no fetch response shows the end of its log. */
static void ask_standing(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();

	if (now_ms < ingest->observer.ends_at_ms ||
		!atomic_load(&ingest->options.health->broker_ok) ||
		partitions_number(&ingest->partitions, is_standing) == 0)
		return;
	ingest->observer.ends_at_ms = now_ms + ENDS_EVERY_MS;
	ask_ends(ingest, is_standing);
}

static void show_lags(struct ingest *ingest)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		const struct partition *partition = ingest->partitions.items[i];

		if (partition->state == PARTITION_READING && partition->flowing)
			show_lag(ingest, partition, log_high(ingest, partition));
	}
	ask_standing(ingest);
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

/* --- Partitions that stand still --------------------------------------------------------------- */

void observe_fetch_failed(void *arg, const struct fetch_fault *fault)
{
	struct ingest *ingest = arg;
	struct fetch_faults *fetch = &ingest->observer.fetch;
	int64_t held = 0;

	fetch->at_ms = clock_now_ms();
	if (fault->topic == NULL)
		fetch->refused_ms = fetch->at_ms;
	(void)snprintf(fetch->error, sizeof(fetch->error), "%s: %s", fault->code, fault->error);
	if (fault_log_limit_pass(&fetch->limit, fetch->at_ms, &held))
		log_warn("fetch_failed", LOG_STR("topic", fault->topic),
			LOG_INT("partition", fault->partition), LOG_STR("code", fault->code),
			LOG_STR("error", fault->error), LOG_INT("held_back", held),
			LOG_STR("next", "librdkafka fetches it again; a partition that does not "
					"get past it is reported as stalled"));
}

static bool fails(int64_t fault_ms, int64_t now_ms)
{
	return fault_ms != 0 && now_ms - fault_ms < FETCH_FAULT_MS;
}

static void moves(struct partition *partition)
{
	if (partition->fetching.stalled && partition->fetching.seen_next != partition->read.next)
		log_info("partition_continues", LOG_STR("topic", partition->topic),
			LOG_INT("partition", partition->partition),
			LOG_INT("offset", partition->read.next));
	partition->fetching.behind_ms = 0;
	partition->fetching.stalled = false;
}

/* A record that does not fit into receive.message.max.bytes, or a batch that grows beyond it or is damaged, has the same offset
 * in each fetch, so nothing behind it comes either. */
static void stands(struct ingest *ingest, struct partition *partition, int64_t now_ms)
{
	struct fetching *fetching = &partition->fetching;
	bool failing = fails(ingest->observer.fetch.at_ms, now_ms);

	if (fetching->behind_ms == 0)
		fetching->behind_ms = now_ms;
	if (fetching->stalled ||
		now_ms - fetching->behind_ms < (failing ? FAULT_STALL_MS : STALL_MS))
		return;
	fetching->stalled = true;
	log_error("partition_stalled", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_INT("offset", partition->read.next),
		LOG_INT("log_ends", fetching->end), LOG_INT("for_ms", now_ms - fetching->behind_ms),
		LOG_STR("error", failing ? ingest->observer.fetch.error : "none is reported"),
		LOG_STR("next", "the partition waits at this offset: raise "
				"kafka.receive.message.max.bytes if the error is about a size, or "
				"skip the batch with `inboxd seek`"));
}

/* --- Open transactions ------------------------------------------------------------------------- */

static void transaction_ends(struct partition *partition)
{
	if (partition->fetching.open_logged)
		log_info("transaction_ended", LOG_STR("topic", partition->topic),
			LOG_INT("partition", partition->partition),
			LOG_INT("offset", partition->read.next));
	partition->fetching.open_ms = 0;
	partition->fetching.open_logged = false;
}

static void log_open(struct ingest *ingest, struct partition *partition, int64_t now_ms)
{
	struct fetching *fetching = &partition->fetching;
	int64_t held = 0;

	if (fetching->open_logged || now_ms - fetching->open_ms < OPEN_MS ||
		!fault_log_limit_pass(&ingest->observer.open_limit, now_ms, &held))
		return;
	fetching->open_logged = true;
	log_warn("transaction_open", LOG_STR("topic", partition->topic),
		LOG_INT("partition", partition->partition), LOG_INT("offset", partition->read.next),
		LOG_INT("log_ends", log_high(ingest, partition)),
		LOG_INT("for_ms", now_ms - fetching->open_ms),
		LOG_STR("next", "the partition waits until the producer's transaction ends; the "
				"brokers abort it after its transaction.timeout.ms, and "
				"kafka-transactions.sh find-hanging lists one that never ends"));
}

static void show_open(struct ingest *ingest, int64_t now_ms)
{
	int64_t longest_ms = 0;

	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];
		int64_t open_ms = partition->fetching.open_ms;

		if (open_ms == 0)
			continue;
		log_open(ingest, partition, now_ms);
		if (now_ms - open_ms > longest_ms)
			longest_ms = now_ms - open_ms;
	}
	metric_set(ingest->observer.open_transaction, (double)longest_ms / 1000);
}

/* A broker has said where the records end that can be read. The records that librdkafka has seen behind that offset belong
 * to a transaction that is open, or are behind one. With read_uncommitted both offsets are the same. */
static void note_open(struct ingest *ingest, struct partition *partition, int64_t end)
{
	if (end > partition->read.next || log_high(ingest, partition) <= partition->read.next)
		transaction_ends(partition);
	else if (partition->fetching.open_ms == 0)
		partition->fetching.open_ms = clock_now_ms();
}

/* --- Which partitions stand still -------------------------------------------------------------- */

/* The partitions that may have records which do not come. librdkafka's end of the log includes open transactions, so it
 * is only a reason to ask. */
static void mark_still(struct ingest *ingest, int64_t now_ms)
{
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];
		struct fetching *fetching = &partition->fetching;

		partition->due = false;
		if (partition->state != PARTITION_READING || !partition->flowing) {
			fetching->behind_ms = 0;
			fetching->open_ms = 0;
			fetching->open_logged = false;
			continue;
		}
		if (fetching->seen_next == partition->read.next)
			partition->due = fetching->behind_ms != 0 ||
					 fails(ingest->observer.fetch.at_ms, now_ms) ||
					 log_high(ingest, partition) > partition->read.next;
		if (!partition->due) {
			moves(partition);
			transaction_ends(partition);
		}
		fetching->seen_next = partition->read.next;
	}
}

static void show_stalled(struct ingest *ingest)
{
	int64_t count = 0;

	for (size_t i = 0; i < ingest->partitions.count; i++)
		count += ingest->partitions.items[i]->fetching.stalled;
	metric_set(ingest->observer.stalled, (double)count);
	atomic_store(&ingest->options.health->stalled, count);
}

static void ask_still(struct ingest *ingest, int64_t now_ms)
{
	if (now_ms < ingest->observer.stalls_at_ms ||
		partitions_number(&ingest->partitions, partition_is_due) == 0)
		return;
	ingest->observer.stalls_at_ms =
		now_ms + (fails(ingest->observer.fetch.at_ms, now_ms) ? 0 : ENDS_EVERY_MS);
	ask_ends(ingest, partition_is_due);
}

/* If a response is refused as a whole, librdkafka connects again and fetches from the same offsets, so that a request for the ends is
 * lost on this connection. Then the start offset is decided anew, while the partition is not fetched. */
static void recheck_once(struct ingest *ingest, struct partition *partition, int64_t now_ms)
{
	if (now_ms - partition->fetching.rechecked_ms < FETCH_FAULT_MS)
		return;
	partition->fetching.rechecked_ms = now_ms;
	flow_recheck(ingest, partition);
}

/* While inboxd itself takes no records, no partition stands still because of Kafka. */
static void find_stalled(struct ingest *ingest, int64_t now_ms)
{
	bool refused = fails(ingest->observer.fetch.refused_ms, now_ms);

	if (ingest->stops != 0 || ingest->outage.down || collect_is_full(ingest) ||
		!handover_queue_is_empty(ingest))
		return;
	mark_still(ingest, now_ms);
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		if (!partition->due)
			continue;
		partition->due = !refused && partition->fetching.end <= partition->read.next;
		if (partition->fetching.end > partition->read.next)
			stands(ingest, partition, now_ms);
		else if (refused)
			recheck_once(ingest, partition, now_ms);
	}
	ask_still(ingest, now_ms);
	show_stalled(ingest);
	show_open(ingest, now_ms);
}

/* --- Answers ----------------------------------------------------------------------------------- */

static void note_end(struct ingest *ingest, const struct background_query *query, size_t i)
{
	const struct query_answer *answer = &query->answers[i];
	struct partition *partition = partitions_find(
		&ingest->partitions, query->partitions[i].topic, query->partitions[i].partition);

	if (partition->end_query != query->id || answer->error != NULL)
		return;
	partition->fetching.end = answer->end;
	if (is_standing(partition)) {
		show_lag(ingest, partition, answer->end);
		return;
	}
	if (answer->end <= partition->read.next)
		moves(partition);
	note_open(ingest, partition, answer->end);
}

static void take_answers(struct ingest *ingest)
{
	struct background_query *query;

	while ((query = background_query_take(&ingest->observer.queries)) != NULL) {
		if (query->request.parts == QUERY_LEADERS)
			note_reach(ingest, query);
		for (size_t i = 0; i < query->count && query->request.parts == QUERY_END; i++)
			note_end(ingest, query, i);
		background_query_free(query);
	}
}

/* --- A round ----------------------------------------------------------------------------------- */

void observe_step(struct ingest *ingest)
{
	int64_t now_ms = clock_now_ms();
	struct health *health = ingest->options.health;
	const uint64_t begun = ingest->observer.queries.begun;

	take_answers(ingest);
	show_paused(ingest);
	if (!store_batch_has_work(ingest) && !ingest->outage.down)
		atomic_store(&health->stored_ms, now_ms);
	if (now_ms < ingest->observer.at_ms)
		return;
	ingest->observer.at_ms = now_ms + OBSERVE_EVERY_MS;
	show_lags(ingest);
	find_stalled(ingest, now_ms);
	consumer_look_at_throttle(ingest->consumer);
	consumer_refresh_credentials(ingest->consumer, ingest->options.config);
	topic_retention_poll(&ingest->observer.retention, ingest->options.config);
	check_brokers(ingest);
	background_queries_wait(&ingest->observer.queries, begun, PROMPT_MS);
	take_answers(ingest);
}
