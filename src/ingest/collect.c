/*
 * Implements collect.h. Records of a partition arrive in the order of their offsets. Before a
 * record is added, the record at `verify_offset` shows whether the topic was recreated.
 */
#include "ingest/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/message/record.h"
#include "report/meters.h"

static struct identity_spec spec_of(const struct topic_rules *rules)
{
	return (struct identity_spec){
		.id = (const char *const *)rules->id.items,
		.id_count = rules->id.count,
		.type = (const char *const *)rules->type.items,
		.type_count = rules->type.count,
		.source = (const char *const *)rules->source.items,
		.source_count = rules->source.count,
		.accept = (const char *const *)rules->accept.items,
		.accept_count = rules->accept.count,
		.missing_id_rejects = rules->missing_id_rejects,
	};
}

static int compile_rules(struct collector *collector, const struct config *config, struct err *err)
{
	collector->rules = calloc(config->topic_count, sizeof(void *));
	if (collector->rules == NULL)
		return err_memory(err);
	for (size_t i = 0; i < config->topic_count; i++) {
		struct identity_spec spec = spec_of(&config->topics[i]);

		if (identity_rules_new(&collector->rules[i], &spec, err) < 0)
			return err_prefix(err, "topics.%s", config->topics[i].topic);
	}
	return 0;
}

int collector_init(struct collector *collector, const struct config *config, struct err *err)
{
	int r = digester_new(&collector->digester, err);

	if (r == 0)
		r = identity_finder_new(&collector->finder, err);
	if (r == 0)
		r = compile_rules(collector, config, err);
	return r;
}

void collector_fini(struct collector *collector, const struct config *config)
{
	for (size_t i = 0; collector->rules != NULL && i < config->topic_count; i++)
		identity_rules_free(collector->rules[i]);
	free(collector->rules);
	identity_finder_free(collector->finder);
	digester_free(collector->digester);
	buf_fini(&collector->encoded);
	buf_fini(&collector->digested);
}

/* Creates the counters of a topic with the value 0. A counter that first appears with the value 1
 * shows no increase, so that an alert on its rate would miss the first event. */
static void show_counters(struct ingest *ingest, const struct partition *partition)
{
	static const enum meter meters_of_topics[] = { METER_DUPLICATES, METER_CONFLICTS,
		METER_TOPIC_RECREATED, METER_OFFSET_GAPS };

	for (size_t i = 0; i < sizeof(meters_of_topics) / sizeof(meters_of_topics[0]); i++)
		(void)metrics_get(
			ingest->options.metrics, meters_of_topics[i], partition->topic, NULL);
}

void collect_prepare(struct ingest *ingest, struct partition *partition)
{
	const struct config *config = ingest->options.config;
	size_t rules = (size_t)(config_topic_rules(config, partition->topic) - config->topics);

	partition->rules = ingest->collector.rules[rules];
	partition->received = metrics_get(
		ingest->options.metrics, METER_MESSAGES_RECEIVED, partition->topic, NULL);
	partition->skipped =
		metrics_get(ingest->options.metrics, METER_SKIPPED, partition->topic, NULL);
	show_counters(ingest, partition);
}

bool collect_is_full(const struct ingest *ingest)
{
	const struct batch *batch = &ingest->batch;
	const struct config *config = ingest->options.config;

	return (int64_t)(batch->row_count + batch->reject_count) >= config->ingest.batch_messages ||
	       (int64_t)batch->bytes >= config->ingest.batch_bytes;
}

/* --- Into the batch ---------------------------------------------------------------------------- */

/* The result borrows from the record, and its headers from the collector until the next call. */
static int describe(struct collector *collector, const struct record *record,
	const struct identity *identity, struct message *out, struct err *err)
{
	unsigned char digest[32];

	*out = (struct message){
		.event_id = identity->event_id,
		.source = identity->source,
		.type = identity->type,
		.topic = record->topic,
		.partition = record->partition,
		.offset = record->offset,
		.timestamp_ms = record->timestamp_ms,
		.key = record->key,
		.payload = record->payload,
	};

	buf_reset(&collector->encoded);
	headers_encode(&collector->encoded, record->headers, record->header_count);
	if (!buf_ok(&collector->encoded))
		return err_memory(err);
	out->headers = (struct bytes){ collector->encoded.data, collector->encoded.length };
	if (digester_sha256(collector->digester, record->payload, digest) < 0)
		return err_set(err, FAULT_INTERNAL, "libcrypto cannot compute SHA-256");
	memcpy(out->digest, digest, sizeof(out->digest));
	if (record->key.data != NULL) {
		(void)digester_sha256(collector->digester, record->key, digest);
		out->key_hash = digest_prefix(digest);
	}
	return 0;
}

static int make_message(struct collector *collector, const struct record *record,
	const struct identity *identity, struct message **out, struct err *err)
{
	struct message from;
	int r = describe(collector, record, identity, &from, err);

	return r < 0 ? r : message_new(out, &from, err);
}

static const struct identity nobody = { .event_id = NULL };

static struct log_digest digest_of(struct collector *collector, const struct record *record)
{
	struct message message;

	if (describe(collector, record, &nobody, &message, NULL) < 0)
		return (struct log_digest){ .known = false };
	return log_digest_of(collector->digester, &collector->digested, &message);
}

static int add_message(struct ingest *ingest, const struct partition *partition,
	const struct record *record, const struct identity *identity, struct err *err)
{
	struct message *message = NULL;
	int r = make_message(&ingest->collector, record, identity, &message, err);

	return r < 0 ? r : batch_add(&ingest->batch, message, partition->index, err);
}

static int add_reject(struct ingest *ingest, const struct record *record, const char *label,
	const char *words, struct err *err)
{
	struct message *message = NULL;
	char reason[512];
	int r = make_message(&ingest->collector, record, &nobody, &message, err);

	(void)snprintf(reason, sizeof(reason), "%s: %s", label, words);
	return r < 0 ? r : batch_reject(&ingest->batch, message, reason, err);
}

static int add_too_large(struct ingest *ingest, const struct record *record, struct err *err)
{
	char words[128];

	(void)snprintf(words, sizeof(words),
		"the payload has %zu bytes, ingest.max_payload is %lld", record->payload.length,
		(long long)ingest->options.config->ingest.max_payload);
	return add_reject(ingest, record, "too_large", words, err);
}

static int add_record(struct ingest *ingest, const struct partition *partition,
	const struct record *record, struct err *err)
{
	struct identity identity;
	int r;

	if ((int64_t)record->payload.length > ingest->options.config->ingest.max_payload)
		return add_too_large(ingest, record, err);
	r = identity_find(ingest->collector.finder, partition->rules, record, &identity, err);
	if (r == IDENTITY_REJECT)
		return add_reject(ingest, record, identity.reject, identity.words, err);
	if (r == IDENTITY_SKIP) {
		metric_add(partition->skipped, 1);
		return r;
	}
	return r < 0 ? r : add_message(ingest, partition, record, &identity, err);
}

/* --- Verification and position ----------------------------------------------------------------- */

/* Compares the record at verify_offset with the last stored record. If compaction removed that
 * record, the log counts as unchanged, because nothing proves the opposite. */
static bool is_same_record(
	struct collector *collector, const struct partition *partition, const struct record *record)
{
	struct log_digest digest;

	if (record->timestamp_ms != partition->verify_timestamp)
		return false;
	digest = digest_of(collector, record);
	return !log_digest_differs(&digest, &partition->verify_digest);
}

static bool is_same_log(
	struct collector *collector, struct partition *partition, const struct record *record)
{
	bool same = true;

	if (partition->verify_offset < 0 || record->offset < partition->verify_offset)
		return true;
	if (record->offset == partition->verify_offset)
		same = is_same_record(collector, partition, record);
	partition->verify_offset = -1;
	partition->recreated = !same;
	return same;
}

static void advance(struct ingest *ingest, struct partition *partition, const struct record *record)
{
	if (ingest->batch_since_us == 0)
		ingest->batch_since_us = clock_now_us();
	partition->next = record->offset + 1;
	partition->last_offset = record->offset;
	partition->last_timestamp = record->timestamp_ms;
	partition->last_digest.known = false;
	partition->touched = true;
	metric_add(partition->received, 1);
}

/*
 * Advances to the end of the log. Transaction markers, aborted records and compacted offsets may
 * follow the last record. They must be passed like records. Otherwise the group would always show a
 * lag, and after retention has moved the start of the log to its end, a start would report deleted
 * records as unread.
 */
static void reach_end(struct ingest *ingest, struct partition *partition, int64_t end)
{
	if (partition->verify_offset >= 0 && partition->verify_offset < end)
		partition->verify_offset = -1; /* compacted, as in is_same_log() */
	if (end <= partition->next)
		return;
	if (partition->last_offset < 0 && !partition->touched && !partition->forced) {
		partition->last_offset = partition->table_last_offset;
		partition->last_timestamp = partition->table_last_timestamp;
		partition->last_digest = partition->table_last_digest;
	}
	partition->next = end;
	partition->touched = true;
	if (ingest->batch_since_us == 0)
		ingest->batch_since_us = clock_now_us();
}

void collect_partition_end(struct ingest *ingest, const struct record *end)
{
	struct partition *partition =
		partitions_find(&ingest->partitions, end->topic, end->partition);

	if (partition != NULL && partition->flowing)
		reach_end(ingest, partition, end->offset);
}

/* The verification precedes the test for the start offset, because the record to verify usually
 * lies before it. */
int collect_record(struct ingest *ingest, const struct record *from, struct err *err)
{
	struct partition *partition =
		partitions_find(&ingest->partitions, from->topic, from->partition);
	struct record record = *from;
	int r;

	if (partition == NULL || !partition->flowing)
		return 0;
	record.topic = partition->topic; /* lives as long as the messages */
	if (!is_same_log(&ingest->collector, partition, &record))
		return COLLECT_RECREATED;
	if (record.offset < partition->next)
		return 0;
	r = add_record(ingest, partition, &record, err);
	if (r >= 0)
		advance(ingest, partition, &record);
	/* A skipped record is not in the batch, so watermark_updates_build() could not compute its
	 * digest later. */
	if (r == IDENTITY_SKIP)
		partition->last_digest = digest_of(&ingest->collector, &record);
	return r < 0 ? r : 0;
}
