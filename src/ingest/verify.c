/*
 * Implements verify.h. Records are looked up in batches of 500. Offsets that are in no table form
 * gaps.
 */
#include "ingest/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/digest.h"
#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "ingest/batch/collect.h"
#include "ingest/kafka/commands/probe.h"
#include "ingest/kafka/consumer.h"
#include "ingest/kafka/topic_ids.h"
#include "queries.h"

#define SILENCE_MS  30000 /* Kafka returned nothing for so long */
#define POLL_MS     500
#define BATCH       500
#define TOPIC_ID_MS 10000

struct verify {
	const struct verify_request *request;
	struct verify_counts *counts;
	struct collector collector;
	const struct identity_rules *rules;
	struct probe *probe;
	struct probe *uncommitted; /* for the ends of the logs */
	int32_t partition;
	struct topic_log log; /* that Kafka has */
	/* The range, and the current batch. */
	int64_t from;
	int64_t to;
	int64_t offsets[BATCH];
	size_t count;
	struct params params;
	int arrays[6];
	/* The current gap; first = -1: none. */
	int64_t gap_first;
	int64_t gap_last;
	bool read;    /* inboxd has read a partition, or --to was given */
	int outside;  /* number of partitions without any record in the range */
	bool reached; /* a partition has records in the range */
	struct buf notes;
};

/* --- Gaps -------------------------------------------------------------------------------------- */

static void end_gap(struct verify *v)
{
	if (v->gap_first >= 0)
		v->request->gap(v->request->arg, v->partition, v->gap_first, v->gap_last, false);
	v->gap_first = -1;
}

/* Offsets that Kafka does not have do not end a gap. */
static void missing(struct verify *v, int64_t offset)
{
	v->counts->missing++;
	if (v->gap_first < 0)
		v->gap_first = offset;
	v->gap_last = offset;
}

/* --- A batch ----------------------------------------------------------------------------------- */

static void begin_batch(struct verify *v)
{
	params_reset(&v->params);
	params_text(&v->params, v->request->topic);
	params_int(&v->params, v->partition);
	v->arrays[0] = params_array(&v->params, ARRAY_BIGINT);
	v->arrays[1] = params_array(&v->params, ARRAY_TEXT);
	v->arrays[2] = params_array(&v->params, ARRAY_TEXT);
	v->arrays[3] = params_array(&v->params, ARRAY_BYTEA);
	v->arrays[4] = params_array(&v->params, ARRAY_TEXT);
	v->arrays[5] = params_array(&v->params, ARRAY_TIMESTAMP);
	v->count = 0;
}

static void count_result(struct verify *v, int64_t offset, const char *result)
{
	const struct {
		const char *result;
		int64_t *counter;
	} counters[] = {
		{ "stored", &v->counts->stored },
		{ "duplicate", &v->counts->duplicates },
		{ "conflict", &v->counts->conflicts },
		{ "rejected", &v->counts->rejected },
		{ "unwanted", &v->counts->skipped },
	};

	for (size_t i = 0; result != NULL && i < sizeof(counters) / sizeof(counters[0]); i++) {
		if (strcmp(counters[i].result, result) != 0)
			continue;
		end_gap(v);
		(*counters[i].counter)++;
		return;
	}
	missing(v, offset);
}

static int ask_table(struct verify *v, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	if (v->count > 0)
		r = db_run(v->request->db, QUERY_OP_VERIFY, &v->params, &rows, err);
	for (size_t i = 0; r == 0 && i < v->count; i++)
		count_result(v, v->offsets[i], rows_text(rows, (int)i, 0));
	if (r == 0)
		begin_batch(v);
	return r;
}

/* --- A record ---------------------------------------------------------------------------------- */

static int add_digest(struct verify *v, struct bytes payload, struct err *err)
{
	unsigned char digest[32];
	struct bytes first = { digest, 16 };

	if (payload.data == NULL) {
		array_null(&v->params, v->arrays[3]);
		return 0;
	}
	if (digester_sha256(v->collector.digester, payload, digest) < 0)
		return err_set(err, FAULT_INTERNAL, "libcrypto cannot compute SHA-256");
	array_bytes(&v->params, v->arrays[3], first);
	return 0;
}

static int add_record(struct verify *v, const struct record *from, struct err *err)
{
	struct record found = *from;
	const struct record *record = &found;
	struct identity identity = { .event_id = NULL };
	bool large = (int64_t)record->payload.length > v->request->config->ingest.max_payload;
	int r;

	found.generation = topic_log_generation(&v->log, found.offset);
	r = large ? IDENTITY_REJECT
		  : identity_find(v->collector.finder, v->rules, record, &identity, err);
	if (r < 0)
		return r;
	if (r == IDENTITY_SKIP) {
		v->counts->skipped++;
		return 0;
	}
	v->offsets[v->count++] = record->offset;
	array_bigint(&v->params, v->arrays[0], record->offset);
	array_text(&v->params, v->arrays[1], r == 0 ? identity.source : NULL);
	array_text(&v->params, v->arrays[2], r == 0 ? identity.event_id : NULL);
	array_text(&v->params, v->arrays[4], r == 0 ? identity.type : NULL);
	array_coordinate_time(&v->params, v->arrays[5], record->timestamp_ms, record->generation);
	r = add_digest(v, record->payload, err);
	return r == 0 && v->count == BATCH ? ask_table(v, err) : r;
}

/* --- A partition ------------------------------------------------------------------------------- */

/* Returns 1 at the end of the range. */
static int take_record(struct verify *v, const struct record *record, struct err *err)
{
	if (record->offset >= v->to)
		return 1;
	v->counts->records++;
	if (v->counts->records % BATCH == 0)
		v->request->progress(v->request->arg, record->offset - v->from, v->to - v->from);
	return add_record(v, record, err);
}

static int read_range(struct verify *v, struct err *err)
{
	int64_t received_ms = clock_now_ms();
	const struct record *record = NULL;
	int r = 0;

	while (r == 0) {
		int polled = probe_poll(v->probe, POLL_MS, &record, err);

		if (polled < 0)
			return polled;
		if (polled == CONSUMER_NOTHING) {
			if (clock_now_ms() - received_ms > SILENCE_MS)
				return err_set(err, FAULT_KAFKA, "no record came for %d s",
					SILENCE_MS / 1000);
			continue;
		}
		received_ms = clock_now_ms();
		r = polled == CONSUMER_PARTITION_END ? 1 : take_record(v, record, err);
	}
	return r < 0 ? r : ask_table(v, err);
}

/* -1: inboxd has not read the partition. */
static int read_watermark(struct verify *v, int64_t *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, v->request->topic);
	params_int(&params, v->partition);
	r = db_run(v->request->db, QUERY_OP_WATERMARK, &params, &rows, err);
	*out = -1;
	v->log = TOPIC_LOG_FIRST;
	if (r != 0 || rows_count(rows) == 0)
		return r;
	if (!rows_is_null(rows, 0, 0))
		*out = rows_int(rows, 0, 0);
	v->log.generation = (int32_t)rows_int(rows, 0, 1);
	v->log.from = rows_int(rows, 0, 2);
	if (!rows_is_null(rows, 0, 3))
		(void)snprintf(v->log.ids, sizeof(v->log.ids), "%s", rows_text(rows, 0, 3));
	return 0;
}

/* Lines; the first one becomes the error when nothing could be proven. */
static void begin_note(struct verify *v)
{
	if (v->notes.length > 0)
		buf_add_char(&v->notes, '\n');
}

/* If a partition ends before `from`, or begins at `to` or later, nothing is proven for it. If that
 * is true for all partitions, it is an error. */
static void note_behind(struct verify *v, int64_t high)
{
	bool log = v->from > high;

	begin_note(v);
	buf_addf(&v->notes, "%s/%d: --from %" PRId64 " is behind %s (%" PRId64 ")",
		v->request->topic, v->partition, v->from,
		log ? "the end of the log" : "what the sidecars have read", log ? high : v->to);
}

static void note_before(struct verify *v, int64_t low)
{
	begin_note(v);
	buf_addf(&v->notes,
		"%s/%d: %s%" PRId64 "%s is not behind the beginning of the log (%" PRId64
		"): what was there is deleted, and nothing of it can be proven",
		v->request->topic, v->partition,
		v->request->to >= 0 ? "--to " : "what the sidecars have read (", v->to,
		v->request->to >= 0 ? "" : ")", low);
}

static void note_end(struct verify *v, int64_t high)
{
	begin_note(v);
	buf_addf(&v->notes,
		"%s/%d: --to %" PRId64 " is behind the end of the log; looked at up to %" PRId64,
		v->request->topic, v->partition, v->to, high);
}

/* The sidecars have read another log under this name. No record of the present log is in a table, unless a producer has
 * sent an id again. */
static int find_log(struct verify *v, struct err *err)
{
	const struct topic_ids_query query = { -1, TOPIC_ID_MS };
	struct topic_id topic = { .topic = v->request->topic };
	int r = topic_ids_ask(probe_handle(v->probe), query, &topic, 1, err);

	if (r < 0 || topic_log_match(&v->log, topic.id) != TOPIC_ID_OTHER)
		return r;
	topic_log_begin(&v->log, 0, topic.id);
	begin_note(v);
	buf_addf(&v->notes,
		"%s/%d: the topic was deleted and created again, and no sidecar has read it since",
		v->request->topic, v->partition);
	return 0;
}

/* No consumer gets these records. Without this note, only the lag would show them. */
static void note_open(struct verify *v, int64_t end, int64_t whole_end)
{
	begin_note(v);
	buf_addf(&v->notes,
		"%s/%d: %" PRId64 " offset%s from %" PRId64 " on %s behind a transaction of a "
		"producer that is still open: nobody can read them, and they were not looked at. "
		"The broker aborts the transaction after its transaction.timeout.ms; "
		"kafka-transactions.sh find-hanging lists one that never ends",
		v->request->topic, v->partition, whole_end - end, plural(whole_end - end), end,
		whole_end - end == 1 ? "is" : "are");
}

/* True when the range ends before the log begins. Without --from and --to, the end of the range may
 * equal the beginning of the log: all records were read then. A range with --from is reported as a
 * gap instead. */
static bool is_before(const struct verify *v, int64_t low)
{
	if (v->request->from >= 0)
		return false;
	return v->request->to >= 0 ? v->to <= low : v->to < low;
}

/* A range that ends where it begins is complete; one that ends earlier is outside. */
static void cut_range(struct verify *v, int64_t low, int64_t high)
{
	bool before = is_before(v, low);

	if (v->to < 0)
		return;
	v->read = true;
	if (before || (v->request->from >= 0 && (v->from > v->to || v->from > high))) {
		v->outside++;
		if (before)
			note_before(v, low);
		else
			note_behind(v, high);
		return;
	}
	v->reached = true;
	if (v->to > high && v->request->to >= 0)
		note_end(v, high);
}

/* Limits the range to the offsets that Kafka has, and reports a deleted part as a gap. */
static int find_range(struct verify *v, struct err *err)
{
	struct log_ends log = { 0, 0 };
	struct log_ends whole = { 0, 0 };
	int64_t watermark = -1;
	int r;

	/* the whole log first: a record that is committed in the meantime must not count as open */
	r = probe_ends(v->uncommitted, v->request->topic, v->partition, &whole, err);
	if (r == 0)
		r = probe_ends(v->probe, v->request->topic, v->partition, &log, err);
	if (r < 0)
		return r;
	r = read_watermark(v, &watermark, err);
	if (r == 0)
		r = find_log(v, err);
	v->from = v->request->from < 0 ? log.low : v->request->from;
	v->to = v->request->to < 0 ? watermark : v->request->to;
	if (r == 0)
		cut_range(v, log.low, log.high);
	if (whole.high > log.high && (v->request->to < 0 || v->request->to > log.high))
		note_open(v, log.high, whole.high);
	if (v->to > log.high)
		v->to = log.high;
	if (r == 0 && v->from < log.low && v->from < v->to) {
		v->request->gap(v->request->arg, v->partition, v->from,
			(log.low < v->to ? log.low : v->to) - 1, true);
		v->from = log.low;
	}
	return r;
}

static int verify_partition(struct verify *v, int32_t partition, struct err *err)
{
	int r;

	v->partition = partition;
	v->gap_first = -1;
	r = find_range(v, err);
	if (r != 0 || v->from >= v->to)
		return r;
	begin_batch(v);
	r = probe_read(v->probe, v->request->topic, partition, v->from, err);
	if (r == 0)
		r = read_range(v, err);
	probe_stop_reading(v->probe);
	end_gap(v);
	v->request->progress(v->request->arg, 0, 0);
	return r;
}

/* --- The whole range --------------------------------------------------------------------------- */

static int verify_all(struct verify *v, struct err *err)
{
	const struct config *config = v->request->config;
	int32_t partitions = 0;
	int r = collector_init(&v->collector, config, err);

	if (r == 0)
		r = probe_open(&v->probe, config, PROBE_TO_THE_END, err);
	if (r == 0)
		r = probe_open(&v->uncommitted, config, PROBE_UNCOMMITTED, err);
	if (r == 0)
		r = probe_topic(
			v->probe, v->request->topic, v->request->partition, &partitions, err);
	if (r != 0)
		return r;
	v->rules =
		v->collector.rules[config_topic_rules(config, v->request->topic) - config->topics];
	if (v->request->partition >= 0)
		return verify_partition(v, (int32_t)v->request->partition, err);
	for (int32_t i = 0; r == 0 && i < partitions; i++)
		r = verify_partition(v, i, err);
	return r;
}

static int end(struct verify *v, struct err *err)
{
	const char *notes = buf_str(&v->notes);

	/* nothing is proven where inboxd has read nothing; a mistyped topic must not look complete */
	if (!v->read)
		return err_set(err, FAULT_CHECK,
			"topic \"%s\": no instance of this schema has read it: correct --topic or "
			"--partition, or give --to",
			v->request->topic);
	if (v->outside > 0 && !v->reached)
		return err_set(err, FAULT_CHECK, "%.*s%s", (int)strcspn(notes, "\n"), notes,
			v->outside == 1 ? "" : ", and so it is in every partition");
	if (notes[0] != '\0')
		v->request->note(v->request->arg, notes);
	return 0;
}

int ingest_verify(
	const struct verify_request *request, struct verify_counts *counts, struct err *err)
{
	CLEANUP(freep) struct verify *v = calloc(1, sizeof(*v));
	int r;

	*counts = (struct verify_counts){ .records = 0 };
	if (v == NULL)
		return err_memory(err);
	v->request = request;
	v->counts = counts;
	r = verify_all(v, err);
	if (r == 0)
		r = end(v, err);
	probe_close(v->probe);
	probe_close(v->uncommitted);
	collector_fini(&v->collector, request->config);
	params_fini(&v->params);
	buf_fini(&v->notes);
	return r;
}
