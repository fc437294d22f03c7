/*
 * Implements claims.h. A claim is one transaction, with one statement for each kind of lane. When the connection is lost
 * after it was sent, the rows may be claimed in the table although the caller never received them;
 * the result is then CLAIM_UNKNOWN. A probe, which looks for the rows that make claims fail, rolls
 * everything back.
 */
#include "store/claims/claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "queries.h"
#include "store/claims/claim_params.h"

/* The result columns of the three claim statements. */
enum {
	COLUMN_SEQ,
	COLUMN_TOPIC,
	COLUMN_PARTITION,
	COLUMN_OFFSET,
	COLUMN_CLAIMED,
	COLUMN_FOLLOWED,
	COLUMN_SOURCE,
	COLUMN_EVENT_ID,
	COLUMN_TYPE,
	COLUMN_TIMESTAMP,
	COLUMN_KEY,
	COLUMN_HEADERS,
	COLUMN_PAYLOAD,
	COLUMN_DELIVERY_COUNT,
	COLUMN_RETRY_COUNT,
	COLUMN_CRASH_COUNT,
	COLUMN_SUSPECT,
	COLUMN_REPLAY,
	COLUMN_KEY_HASH,
	COLUMN_CUT,
	COLUMN_NUMBER, /* of the stream or lane in the statement, from 1 */
	COLUMN_DUE,    /* only claim_due has it */
};

void refused_seqs_fini(struct refused_seqs *seqs)
{
	free(seqs->items);
	*seqs = (struct refused_seqs){ NULL };
}

int refused_seqs_add(struct refused_seqs *seqs, int64_t seq, struct err *err)
{
	if (seqs->count == seqs->room) {
		size_t room = seqs->room == 0 ? 16 : seqs->room * 2;
		int64_t *items = realloc(seqs->items, room * sizeof(*items));

		if (items == NULL)
			return err_memory(err);
		seqs->items = items;
		seqs->room = room;
	}
	seqs->items[seqs->count++] = seq;
	return 0;
}

void claimed_fini(struct claimed *claimed)
{
	for (size_t i = 0; i < claimed->count; i++)
		message_free(claimed->rows[i].message);
	free(claimed->rows);
	free(claimed->latest);
	*claimed = (struct claimed){ NULL };
}

/* A value at the end of the type is lowered by one, so that one more attempt can always be counted. */
static int read_count(const struct rows *rows, int row, int column)
{
	int64_t count = rows_int(rows, row, column);

	return count < INT32_MAX ? (int)count : INT32_MAX - 1;
}

/* `consumer` lives as long as the message. */
static int read_message(const struct rows *rows, int row, const char *consumer,
	struct message **out, struct err *err)
{
	const struct message message = {
		.seq = rows_int(rows, row, COLUMN_SEQ),
		.event_id = rows_text(rows, row, COLUMN_EVENT_ID),
		.source = rows_text(rows, row, COLUMN_SOURCE),
		.type = rows_text(rows, row, COLUMN_TYPE),
		.consumer = consumer,
		.topic = rows_text(rows, row, COLUMN_TOPIC),
		.partition = (int32_t)rows_int(rows, row, COLUMN_PARTITION),
		.offset = rows_int(rows, row, COLUMN_OFFSET),
		.timestamp_ms = rows_timestamp_ms(rows, row, COLUMN_TIMESTAMP),
		.key = rows_bytes(rows, row, COLUMN_KEY),
		.payload = rows_bytes(rows, row, COLUMN_PAYLOAD),
		.headers = rows_bytes(rows, row, COLUMN_HEADERS),
		.key_hash = hash_of(rows_bytes(rows, row, COLUMN_KEY_HASH)),
		.delivery_count = (int)rows_int(rows, row, COLUMN_DELIVERY_COUNT),
		.retry_count = read_count(rows, row, COLUMN_RETRY_COUNT),
		.crash_count = read_count(rows, row, COLUMN_CRASH_COUNT),
		.suspect = rows_bool(rows, row, COLUMN_SUSPECT),
		.replay = rows_bool(rows, row, COLUMN_REPLAY),
	};

	return message_new(out, &message, err);
}

static int in_order(const void *a, const void *b)
{
	const struct claimed_row *first = a;
	const struct claimed_row *second = b;

	if (first->stream != second->stream)
		return first->stream < second->stream ? -1 : 1;
	if (first->message->offset != second->message->offset)
		return first->message->offset < second->message->offset ? -1 : 1;
	return (first->message->seq > second->message->seq) -
	       (first->message->seq < second->message->seq);
}

/* What a request is about: streams or, with hashes, keys of streams. */
struct scope {
	const struct stream_ref *streams;
	const uint64_t *hashes; /* NULL: the due rows of the streams */
	size_t count;
};

/*
 * A part of a scope, with the statement that claims it. Streams that are one lane as a whole
 * (ORDERING_PARTITION) are claimed along their offsets, all others by due time or by key. So a claim
 * has two parts if its streams have different orderings.
 */
struct part {
	bool whole;
	struct stream_ref *streams;
	size_t *numbers; /* their indexes in the scope */
	size_t count;
	struct params params;
	struct rows *rows;
};

struct parts {
	struct part items[2];
	size_t count;
};

static void parts_fini(struct parts *parts)
{
	for (size_t i = 0; i < 2; i++) {
		free(parts->items[i].streams);
		free(parts->items[i].numbers);
		params_fini(&parts->items[i].params);
		rows_free(parts->items[i].rows);
	}
}

/* Adds the part of these streams, if there are any. */
static int add_part(struct parts *parts, const struct scope *scope, bool whole, struct err *err)
{
	struct part *part = &parts->items[parts->count];

	part->whole = whole;
	part->streams = calloc(scope->count + 1, sizeof(*part->streams));
	part->numbers = calloc(scope->count + 1, sizeof(*part->numbers));
	if (part->streams == NULL || part->numbers == NULL)
		return err_memory(err);
	for (size_t i = 0; i < scope->count; i++) {
		if ((scope->streams[i].ordering == ORDERING_PARTITION) != whole)
			continue;
		part->streams[part->count] = scope->streams[i];
		part->numbers[part->count++] = i;
	}
	if (part->count > 0) {
		parts->count++;
		return 0;
	}
	free(part->streams);
	free(part->numbers);
	*part = (struct part){ .count = 0 };
	return 0;
}

static int divide(struct parts *parts, const struct scope *scope, struct err *err)
{
	int r = add_part(parts, scope, false, err);

	return r != 0 ? r : add_part(parts, scope, true, err);
}

static enum query claim_query(const struct part *part, const struct scope *scope)
{
	if (part->whole)
		return QUERY_CLAIM_PARTITIONS;
	return scope->hashes == NULL ? QUERY_CLAIM_DUE : QUERY_CLAIM_LANES;
}

static int int_of(size_t value)
{
	return value > INT32_MAX - 1 ? INT32_MAX - 1 : (int)value;
}

/* The limit of a statement: rows in all for due rows, otherwise rows of each lane. */
static size_t limit_of(const struct parts *parts, const struct part *part,
	const struct scope *scope, const struct claim_request *request)
{
	size_t most = request->max_rows;

	if (scope->hashes == NULL)
		most /= parts->count;
	if (scope->hashes == NULL && part->whole)
		most /= part->count;
	return most > 0 ? most : 1;
}

/* The statement about whole streams shares its parts with claim_lanes, which has a hash for each lane. */
static void add_hashes(struct params *params, const struct part *part, const struct scope *scope)
{
	int hash = params_array(params, ARRAY_BYTEA);

	for (size_t i = 0; i < part->count; i++) {
		if (part->whole)
			array_null(params, hash);
		else
			add_hash(params, hash, scope->hashes[part->numbers[i]]);
	}
}

static void add_since(struct params *params, const struct part *part, const int64_t *since)
{
	int array = params_array(params, ARRAY_TIMESTAMP);

	for (size_t i = 0; i < part->count; i++)
		array_timestamp(params, array, since == NULL ? -1 : since[part->numbers[i]]);
}

static void add_keyed(struct params *params, const struct part *part)
{
	int keyed = params_array(params, ARRAY_BOOL);

	for (size_t i = 0; i < part->count; i++)
		array_bool(params, keyed, part->streams[i].ordering == ORDERING_KEY);
}

static int fill_claim(const struct parts *parts, struct part *part, const struct scope *scope,
	const struct claim_request *request, struct err *err)
{
	struct params *params = &part->params;
	bool due = scope->hashes == NULL && !part->whole;
	int r;

	params_int(params, request->instance);
	add_streams(params, part->streams, part->count);
	if (!due)
		add_hashes(params, part, scope);
	params_int(params, int_of(limit_of(parts, part, scope, request)));
	params_bigint(params, (int64_t)(request->max_bytes / parts->count));
	r = add_subscriptions(params, request->routing, err);
	if (due)
		add_keyed(params, part);
	params_bigint(params, request->number);
	if (due)
		add_since(params, part, request->since);
	add_seqs_without(params, request->without);
	return r;
}

/* --- The result ---------------------------------------------------------------------------------- */

/* Includes rows that were parked, so that a later claim can start after them. */
static void note_latest(const struct part *part, struct claimed *out)
{
	for (int i = 0; i < rows_count(part->rows); i++) {
		size_t number = (size_t)rows_int(part->rows, i, COLUMN_NUMBER) - 1;
		int64_t *latest = &out->latest[part->numbers[number]];
		int64_t due = rows_timestamp_ms(part->rows, i, COLUMN_DUE);

		if (due > *latest)
			*latest = due;
	}
}

static int read_part(
	const struct part *part, const struct scope *scope, struct claimed *out, struct err *err)
{
	const struct rows *rows = part->rows;
	int r = 0;

	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		size_t number = part->numbers[rows_int(rows, i, COLUMN_NUMBER) - 1];
		struct claimed_row *row = &out->rows[out->count];

		if (!rows_bool(rows, i, COLUMN_CLAIMED)) {
			out->parked++;
			continue;
		}
		row->stream = number;
		row->followed = rows_bool(rows, i, COLUMN_FOLLOWED);
		r = read_message(rows, i, scope->streams[number].consumer, &row->message, err);
		out->count += r == 0;
	}
	out->cut |= rows_count(rows) > 0 && rows_bool(rows, 0, COLUMN_CUT);
	if (r == 0 && scope->hashes == NULL && !part->whole)
		note_latest(part, out);
	return r;
}

static int read_claimed(struct parts *parts, const struct scope *scope,
	const struct claim_request *request, struct claimed *out, struct err *err)
{
	struct claimed claimed = { .seen = 0 };
	int r = 0;

	for (size_t i = 0; i < parts->count; i++) {
		const struct part *part = &parts->items[i];
		size_t seen = (size_t)rows_count(part->rows);

		claimed.seen += seen;
		claimed.limited |= seen >= limit_of(parts, part, scope, request);
	}
	claimed.rows = calloc(claimed.seen + 1, sizeof(*claimed.rows));
	claimed.latest = malloc((scope->count + 1) * sizeof(*claimed.latest));
	if (claimed.rows == NULL || claimed.latest == NULL)
		r = err_memory(err);
	for (size_t i = 0; r == 0 && i < scope->count; i++)
		claimed.latest[i] = -1;
	for (size_t i = 0; r == 0 && i < parts->count; i++)
		r = read_part(&parts->items[i], scope, &claimed, err);
	if (r != 0) {
		claimed_fini(&claimed);
		return r;
	}
	qsort(claimed.rows, claimed.count, sizeof(*claimed.rows), in_order);
	*out = claimed;
	return 0;
}

/* --- The transaction ------------------------------------------------------------------------------ */

/* One statement is a transaction of its own. */
static int run_parts(struct db *db, struct parts *parts, const struct scope *scope, struct err *err)
{
	struct part *part = &parts->items[0];
	int r;

	if (parts->count == 1)
		return db_run(db, claim_query(part, scope), &part->params, &part->rows, err);
	r = db_begin(db, err);
	for (; r == 0 && part < &parts->items[parts->count]; part++)
		r = db_queue(db, claim_query(part, scope), &part->params, &part->rows, err);
	return r != 0 ? r : db_commit(db, err);
}

/* If the rows were committed but cannot be read for lack of memory, the result is also unknown:
 * memory does not hold them. */
static int claim(struct db *db, const struct claim_request *request, const struct scope *scope,
	struct claimed *out, struct err *err)
{
	CLEANUP(parts_fini) struct parts parts = { .count = 0 };
	bool was_open = db_is_open(db);
	int r = divide(&parts, scope, err);

	for (size_t i = 0; r == 0 && i < parts.count; i++)
		r = fill_claim(&parts, &parts.items[i], scope, request, err);
	if (r != 0 || parts.count == 0)
		return r;
	FAULT_POINT("before_claim");
	r = run_parts(db, &parts, scope, err);
	FAULT_POINT("after_claim");
	if (r == 0 && FAULT_ERROR("error_after_claim"))
		return CLAIM_UNKNOWN;
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN || (was_open && !db_is_open(db)) ? CLAIM_UNKNOWN : r;
	return read_claimed(&parts, scope, request, out, err) == 0 ? 0 : CLAIM_UNKNOWN;
}

int claims_due(struct db *db, const struct claim_request *request,
	const struct claim_streams *streams, struct claimed *out, struct err *err)
{
	const struct scope scope = { streams->items, NULL, streams->count };

	return claim(db, request, &scope, out, err);
}

int claims_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct claimed *out, struct err *err)
{
	const struct scope scope = { lanes->streams, lanes->hashes, lanes->count };

	return claim(db, request, &scope, out, err);
}

int claims_rescue(struct db *db, const struct claims_held *held, int64_t *rescued, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int seq;
	int delivery_count;
	int r;

	params_int(&params, held->instance);
	/* The claim whose answer was lost may still run; this lock waits until it has ended. It is not held
	 * during the rescue, because the heartbeat would wait for it. */
	r = db_run(db, QUERY_LOCK_LEASE, &params, NULL, err);
	seq = params_array(&params, ARRAY_BIGINT);
	delivery_count = params_array(&params, ARRAY_INT);
	for (size_t i = 0; i < held->count; i++) {
		array_bigint(&params, seq, held->rows[i].seq);
		array_int(&params, delivery_count, held->rows[i].delivery_count);
	}
	params_bigint(&params, held->low_claim);
	if (r == 0)
		r = db_run(db, QUERY_RESCUE_UNHELD, &params, &rows, err);
	if (r != 0)
		return r;
	*rescued = rows_int(rows, 0, 0);
	return 0;
}

/* A search for the rows that make claims fail. */
struct claim_probe {
	struct db *db;
	const struct claim_request *request;
	struct refused_seqs *out;
	size_t refused;
	struct err said; /* the error of the last refused row */
};

static int try_rows(
	const struct claim_probe *probe, const int64_t *seqs, size_t count, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int seq;

	params_int(&params, probe->request->instance);
	params_bigint(&params, probe->request->number);
	seq = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < count; i++)
		array_bigint(&params, seq, seqs[i]);
	return db_step(probe->db, QUERY_PROBE_CLAIM, &params, NULL, err);
}

static int halve(struct claim_probe *probe, const int64_t *seqs, size_t count, struct err *err)
{
	size_t half = count / 2;
	int r = db_savepoint(probe->db, err);

	if (r == 0)
		r = try_rows(probe, seqs, count, err);
	if (r == 0 || !db_is_open(probe->db) || !db_error_may_be_row(err))
		return r;
	probe->said = *err;
	r = db_rollback_to_savepoint(probe->db, err);
	if (r != 0)
		return r;
	if (count == 1) {
		probe->refused++;
		return refused_seqs_add(probe->out, seqs[0], err);
	}
	r = halve(probe, seqs, half, err);
	return r != 0 ? r : halve(probe, seqs + half, count - half, err);
}

static int try_all(struct claim_probe *probe, const struct rows *rows, struct err *err)
{
	size_t count = (size_t)rows_count(rows);
	CLEANUP(freep) int64_t *seqs = calloc(count + 1, sizeof(*seqs));
	int r;

	if (seqs == NULL)
		return err_memory(err);
	for (size_t i = 0; i < count; i++)
		seqs[i] = rows_int(rows, (int)i, 0);
	r = count == 0 ? 0 : halve(probe, seqs, count, err);
	if (r != 0 || probe->refused == 0)
		return r;
	*err = probe->said;
	return probe->refused == count && count > 1 ? FAULT_DATABASE : 0;
}

/* Makes deferred constraints fail with the statement, because the transaction has no COMMIT. */
static int run_probe(struct claim_probe *probe, enum query candidates, const struct params *params,
	struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	size_t before = probe->out->count;
	int r = db_begin(probe->db, err);

	if (r == 0)
		r = db_step(probe->db, candidates, params, &rows, err);
	if (r == 0)
		r = db_script(probe->db, "SET CONSTRAINTS ALL IMMEDIATE", err);
	if (r == 0)
		r = try_all(probe, rows, err);
	db_rollback(probe->db);
	if (r != 0)
		probe->out->count = before;
	return r;
}

/* Tries the rows that each statement of the claim would take first. */
static int probe_all(struct db *db, const struct claim_request *request, const struct scope *scope,
	struct refused_seqs *out, struct err *err)
{
	CLEANUP(parts_fini) struct parts parts = { .count = 0 };
	struct claim_probe probe = { .db = db, .request = request, .out = out };
	int r = divide(&parts, scope, err);

	for (size_t i = 0; r == 0 && i < parts.count; i++) {
		struct part *part = &parts.items[i];
		bool keys = !part->whole && scope->hashes != NULL;

		add_streams(&part->params, part->streams, part->count);
		if (keys)
			add_hashes(&part->params, part, scope);
		params_int(&part->params, int_of(limit_of(&parts, part, scope, request)));
		add_seqs_without(&part->params, out);
		r = run_probe(&probe,
			part->whole ? QUERY_PROBE_PARTITIONS
			: keys      ? QUERY_PROBE_LANES
				    : QUERY_PROBE_DUE,
			&part->params, err);
	}
	return r;
}

int claims_probe_due(struct db *db, const struct claim_request *request,
	const struct claim_streams *streams, struct refused_seqs *out, struct err *err)
{
	const struct scope scope = { streams->items, NULL, streams->count };
	struct err own = ERR_INIT;

	return probe_all(db, request, &scope, out, err == NULL ? &own : err);
}

int claims_probe_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct refused_seqs *out, struct err *err)
{
	const struct scope scope = { lanes->streams, lanes->hashes, lanes->count };
	struct err own = ERR_INIT;

	return probe_all(db, request, &scope, out, err == NULL ? &own : err);
}
