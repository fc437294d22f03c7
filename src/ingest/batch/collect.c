/*
 * Implements collect.h. Records of a partition arrive in the order of their offsets. Before a
 * record is added, the record at `verify.offset` shows whether the topic was recreated.
 */
#include "ingest/batch/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "model/message/record.h"
#include "report/meters.h"

/* Prepares the rules of one topic. */
static int compile_rules(
	struct identity_rules **out, const struct topic_rules *rules, struct err *err)
{
	const struct identity_spec spec = {
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

	return identity_rules_new(out, &spec, err) < 0 ? err_prefix(err, "topics.%s", rules->topic)
						       : 0;
}

int collector_init(struct collector *collector, const struct config *config, struct err *err)
{
	int r = digester_new(&collector->digester, err);

	if (r == 0)
		r = identity_finder_new(&collector->finder, err);
	if (r < 0)
		return r;
	collector->rules = calloc(config->topic_count, sizeof(void *));
	if (collector->rules == NULL)
		return err_memory(err);
	for (size_t i = 0; r == 0 && i < config->topic_count; i++)
		r = compile_rules(&collector->rules[i], &config->topics[i], err);
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

bool collect_is_full(const struct ingest *ingest)
{
	const struct batch *batch = &ingest->storing.batch;
	const struct config *config = ingest->options.config;

	return (int64_t)(batch->row_count + batch->reject_count) >= config->ingest.batch_messages ||
	       (int64_t)batch->bytes >= config->ingest.batch_bytes;
}

/* --- Into the batch ---------------------------------------------------------------------------- */

/*
 * What is kept of a record that is too large. The producer may have compressed it, so it can have a size that no limit of
 * the configuration foresees. This must not depend on the configuration: the digest of the last record is computed again at
 * the next start.
 */
#define KEY_AND_HEADERS_MOST ((size_t)16 << 20)
#define PAYLOAD_HEAD         ((size_t)64 << 10)

static size_t key_and_headers(const struct record *record)
{
	size_t bytes = record->key.length;

	for (size_t i = 0; i < record->header_count; i++)
		bytes += strlen(record->headers[i].name) + record->headers[i].value.length;
	return bytes;
}

/* The result borrows from the record, and its headers from the collector until the next call. */
static int describe(struct collector *collector, const struct record *record,
	const struct identity *identity, struct message *out, struct err *err)
{
	bool whole = key_and_headers(record) <= KEY_AND_HEADERS_MOST;
	unsigned char digest[32];

	*out = (struct message){
		.event_id = identity->event_id,
		.source = identity->source,
		.type = identity->type,
		.topic = record->topic,
		.partition = record->partition,
		.offset = record->offset,
		.timestamp_ms = record->timestamp_ms,
		.generation = record->generation,
		.key = whole ? record->key : (struct bytes){ NULL, 0 },
		.payload = record->payload,
	};

	buf_reset(&collector->encoded);
	headers_encode(&collector->encoded, record->headers, whole ? record->header_count : 0);
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

static int add_reject(struct ingest *ingest, const struct record *record, const char *label,
	const char *words, struct err *err)
{
	struct message *message = NULL;
	char reason[512];
	int r = make_message(&ingest->collector, record, &nobody, &message, err);

	(void)snprintf(reason, sizeof(reason), "%s: %s", label, words);
	return r < 0 ? r : batch_reject(&ingest->storing.batch, message, reason, err);
}

/* A replay of rejects recognises by the reason that the record is not whole (queries/ops/op_rejects.sql). */
static int add_not_whole(
	struct ingest *ingest, const struct record *record, const char *words, struct err *err)
{
	struct message *message = NULL;
	struct message from;
	char digest[2 * sizeof(from.digest) + 1];
	char reason[512];
	int r = describe(&ingest->collector, record, &nobody, &from, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(from.digest); i++)
		(void)snprintf(digest + 2 * i, 3, "%02x", from.digest[i]);
	if (from.payload.length > PAYLOAD_HEAD)
		from.payload.length = PAYLOAD_HEAD;
	(void)snprintf(reason, sizeof(reason),
		"too_large: %s; not kept whole: %zu bytes of the payload are kept, its SHA-256 "
		"begins with %s",
		words, from.payload.length, digest);
	r = message_new(&message, &from, err);
	return r < 0 ? r : batch_reject(&ingest->storing.batch, message, reason, err);
}

/* IDENTITY_REJECT: it is added as a reject. A payload of up to twice the limit is kept, so that a replay of rejects can store
 * it after the limit was raised. */
static int refuse_too_large(struct ingest *ingest, const struct record *record, struct err *err)
{
	size_t most = (size_t)ingest->options.config->ingest.max_payload;
	char words[192];
	int r;

	if (key_and_headers(record) > KEY_AND_HEADERS_MOST) {
		(void)snprintf(words, sizeof(words),
			"the key and the headers have %zu bytes, at most %zu are stored: correct "
			"the producer",
			key_and_headers(record), KEY_AND_HEADERS_MOST);
		r = add_not_whole(ingest, record, words, err);
		return r < 0 ? r : IDENTITY_REJECT;
	}
	if (record->payload.length <= most)
		return 0;
	(void)snprintf(words, sizeof(words), "the payload has %zu bytes, ingest.max_payload is %zu",
		record->payload.length, most);
	if (record->payload.length > 2 * most)
		(void)snprintf(words + strlen(words), sizeof(words) - strlen(words),
			": raise it, and read the record again with `inboxd seek`");
	r = record->payload.length > 2 * most ? add_not_whole(ingest, record, words, err)
					      : add_reject(ingest, record, "too_large", words, err);
	return r < 0 ? r : IDENTITY_REJECT;
}

/* Adds a message once for each consumer that wants it. IDENTITY_SKIP: none does. */
static int add_for_consumers(struct ingest *ingest, const struct partition *partition,
	struct message *message, struct err *err)
{
	struct batch *batch = &ingest->storing.batch;
	bool again = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < partition->audience.count; i++) {
		const struct audience_member *member = &partition->audience.members[i];
		struct message *copy = NULL;

		if (member->consumer == NULL ||
			!consumer_wants_type(member->consumer, message->type))
			continue;
		message->consumer = member->name;
		r = message_new(&copy, message, err);
		if (r == 0)
			r = (again ? batch_add_again : batch_add)(batch, copy, member->stream, err);
		again = true;
	}
	if (!again && partition->unwanted != NULL)
		metric_add(partition->unwanted, 1);
	return again ? r : IDENTITY_SKIP;
}

/* Adds the record as a message or as a reject. IDENTITY_SKIP: its type is not accepted, or no consumer wants it. */
static int add_record(struct ingest *ingest, const struct partition *partition,
	const struct record *record, struct err *err)
{
	struct message message;
	struct identity identity;
	int r = refuse_too_large(ingest, record, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = identity_find(ingest->collector.finder, partition->rules, record, &identity, err);
	if (r == IDENTITY_REJECT)
		return add_reject(ingest, record, identity.reject, identity.words, err);
	if (r == IDENTITY_SKIP)
		metric_add(partition->skipped, 1);
	if (r != 0)
		return r;
	r = describe(&ingest->collector, record, &identity, &message, err);
	return r < 0 ? r : add_for_consumers(ingest, partition, &message, err);
}

/* --- Verification and position ----------------------------------------------------------------- */

static void touch(struct ingest *ingest, struct partition *partition)
{
	partition->update.touched = true;
	if (ingest->storing.since_us == 0)
		ingest->storing.since_us = clock_now_us();
}

static void verified(struct ingest *ingest, struct partition *partition)
{
	partition_verified(partition);
	if (partition->update.touched)
		touch(ingest, partition);
}

/* Compares the record at verify.offset with the last stored record. If compaction removed that
 * record, the log counts as unchanged, because nothing proves the opposite. */
static bool is_same_record(
	struct collector *collector, const struct partition *partition, const struct record *record)
{
	struct log_digest digest;

	if (record->timestamp_ms != partition->verify.timestamp)
		return false;
	digest = digest_of(collector, record);
	return !log_digest_differs(&digest, &partition->verify.digest);
}

static bool is_same_log(
	struct ingest *ingest, struct partition *partition, const struct record *record)
{
	bool same = true;

	if (partition->verify.offset < 0 || record->offset < partition->verify.offset)
		return true;
	if (record->offset == partition->verify.offset)
		same = is_same_record(&ingest->collector, partition, record);
	partition->start.recreated = !same;
	if (same)
		verified(ingest, partition);
	else
		partition->verify.offset = -1;
	return same;
}

static void advance(struct ingest *ingest, struct partition *partition, const struct record *record)
{
	touch(ingest, partition);
	partition->read.next = record->offset + 1;
	partition->read.last.offset = record->offset;
	partition->read.last.timestamp = record->timestamp_ms;
	partition->read.last.digest.known = false;
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
	if (partition->verify.offset >= 0 && partition->verify.offset < end)
		verified(ingest, partition); /* compacted, as in is_same_log() */
	if (end <= partition->read.next)
		return;
	if (partition->read.last.offset < 0 && !partition->update.touched &&
		!partition->table.forced) {
		partition->read.last.offset = partition->table.last.offset;
		partition->read.last.timestamp = partition->table.last.timestamp;
		partition->read.last.digest = partition->table.last.digest;
	}
	partition->read.next = end;
	touch(ingest, partition);
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
	record.generation = topic_log_generation(&partition->log, record.offset);
	if (!is_same_log(ingest, partition, &record))
		return COLLECT_RECREATED;
	if (record.offset < partition->read.next)
		return 0;
	r = add_record(ingest, partition, &record, err);
	if (r >= 0)
		advance(ingest, partition, &record);
	/* A skipped record is not in the batch, so watermark_updates_build() could not compute its
	 * digest later. */
	if (r == IDENTITY_SKIP)
		partition->read.last.digest = digest_of(&ingest->collector, &record);
	return r < 0 ? r : 0;
}
