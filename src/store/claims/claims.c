/*
 * Implements claims.h. A claim is one statement in one transaction. When the connection is lost
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
	COLUMN_NUMBER, /* of the partition in the request, from 1; only claim_due has this and the next one */
	COLUMN_DUE,
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

static int read_message(const struct rows *rows, int row, struct message **out, struct err *err)
{
	const struct message message = {
		.seq = rows_int(rows, row, COLUMN_SEQ),
		.event_id = rows_text(rows, row, COLUMN_EVENT_ID),
		.source = rows_text(rows, row, COLUMN_SOURCE),
		.type = rows_text(rows, row, COLUMN_TYPE),
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
	const struct message *first = ((const struct claimed_row *)a)->message;
	const struct message *second = ((const struct claimed_row *)b)->message;
	int order = strcmp(first->topic, second->topic);

	if (order != 0)
		return order;
	if (first->partition != second->partition)
		return first->partition < second->partition ? -1 : 1;
	if (first->offset != second->offset)
		return first->offset < second->offset ? -1 : 1;
	return (first->seq > second->seq) - (first->seq < second->seq);
}

/* Includes rows that were parked, so that a later claim can start after them. */
static int read_latest(
	const struct rows *rows, size_t partitions, struct claimed *out, struct err *err)
{
	out->latest = malloc((partitions + 1) * sizeof(*out->latest));
	if (out->latest == NULL)
		return err_memory(err);
	for (size_t i = 0; i < partitions; i++)
		out->latest[i] = -1;
	for (int i = 0; i < rows_count(rows); i++) {
		int64_t *latest = &out->latest[rows_int(rows, i, COLUMN_NUMBER) - 1];
		int64_t due = rows_timestamp_ms(rows, i, COLUMN_DUE);

		if (due > *latest)
			*latest = due;
	}
	return 0;
}

static int read_claimed(
	const struct rows *rows, size_t partitions, struct claimed *out, struct err *err)
{
	struct claimed claimed = { .seen = (size_t)rows_count(rows) };
	int r = 0;

	claimed.rows = calloc(claimed.seen + 1, sizeof(*claimed.rows));
	if (claimed.rows == NULL)
		return err_memory(err);
	for (int i = 0; r == 0 && i < rows_count(rows); i++) {
		struct claimed_row *row = &claimed.rows[claimed.count];

		if (!rows_bool(rows, i, COLUMN_CLAIMED)) {
			claimed.parked++;
			continue;
		}
		r = read_message(rows, i, &row->message, err);
		row->followed = rows_bool(rows, i, COLUMN_FOLLOWED);
		claimed.count += r == 0;
	}
	claimed.cut = claimed.seen > 0 && rows_bool(rows, 0, COLUMN_CUT);
	if (r == 0 && partitions > 0)
		r = read_latest(rows, partitions, &claimed, err);
	if (r != 0) {
		claimed_fini(&claimed);
		return r;
	}
	qsort(claimed.rows, claimed.count, sizeof(*claimed.rows), in_order);
	*out = claimed;
	return 0;
}

struct claim_statement {
	enum query query;
	const struct params *params;
	size_t partitions; /* number of partitions of claim_due; otherwise 0 */
};

/* If the rows were committed but cannot be read for lack of memory, the result is also unknown:
 * memory does not hold them. */
static int run_claim(struct db *db, const struct claim_statement *statement, struct claimed *out,
	struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	bool was_open = db_is_open(db);
	int r;

	FAULT_POINT("before_claim");
	r = db_run(db, statement->query, statement->params, &rows, err);
	FAULT_POINT("after_claim");
	if (r == 0 && FAULT_ERROR("error_after_claim"))
		return CLAIM_UNKNOWN;
	if (r != 0)
		return was_open && !db_is_open(db) ? CLAIM_UNKNOWN : r;
	return read_claimed(rows, statement->partitions, out, err) == 0 ? 0 : CLAIM_UNKNOWN;
}

static int int_of(size_t value)
{
	return value > INT32_MAX - 1 ? INT32_MAX - 1 : (int)value;
}

static int claim_runs(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct claimed *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const struct claim_statement statement = { QUERY_CLAIM_PARTITIONS, &params, 0 };
	int hash;
	int r;

	params_int(&params, request->instance);
	add_partitions(&params, partitions->items, partitions->count);
	/* the statement shares its parts with claim_lanes, which has a hash for each lane */
	hash = params_array(&params, ARRAY_BYTEA);
	for (size_t i = 0; i < partitions->count; i++)
		array_null(&params, hash);
	params_int(&params, int_of(request->max_rows));
	params_bigint(&params, (int64_t)request->max_bytes);
	r = add_subscriptions(&params, request->routing, err);
	params_bigint(&params, request->number);
	add_seqs_without(&params, request->without);
	return r != 0 ? r : run_claim(db, &statement, out, err);
}

int claims_due(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct claimed *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const struct claim_statement statement = { QUERY_CLAIM_DUE, &params, partitions->count };
	int since;
	int r;

	if (request->ordering == ORDERING_PARTITION)
		return claim_runs(db, request, partitions, out, err);
	params_int(&params, request->instance);
	add_partitions(&params, partitions->items, partitions->count);
	params_int(&params, int_of(request->max_rows));
	params_bigint(&params, (int64_t)request->max_bytes);
	r = add_subscriptions(&params, request->routing, err);
	params_bool(&params, request->ordering == ORDERING_KEY);
	params_bigint(&params, request->number);
	since = params_array(&params, ARRAY_TIMESTAMP);
	for (size_t i = 0; i < partitions->count; i++)
		array_timestamp(&params, since, request->since == NULL ? -1 : request->since[i]);
	add_seqs_without(&params, request->without);
	return r != 0 ? r : run_claim(db, &statement, out, err);
}

int claims_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct claimed *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	const struct claim_statement statement = { QUERY_CLAIM_LANES, &params, 0 };
	int r;

	params_int(&params, request->instance);
	add_lanes(&params, lanes);
	params_int(&params, int_of(request->max_rows));
	params_bigint(&params, (int64_t)request->max_bytes);
	r = add_subscriptions(&params, request->routing, err);
	params_bigint(&params, request->number);
	add_seqs_without(&params, request->without);
	return r != 0 ? r : run_claim(db, &statement, out, err);
}

int claims_rescue(struct db *db, const struct claims_held *held, int64_t *rescued, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int seq;
	int r = db_begin(db, err);

	params_int(&params, held->instance);
	/* the claim whose answer was lost may still run; this lock waits until it has ended */
	if (r == 0)
		r = db_queue(db, QUERY_LOCK_LEASE, &params, NULL, err);
	seq = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < held->count; i++)
		array_bigint(&params, seq, held->seqs[i]);
	params_bigint(&params, held->low_claim);
	if (r == 0)
		r = db_queue(db, QUERY_RESCUE_UNHELD, &params, &rows, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	*rescued = rows_int(rows, 0, 0);
	return 0;
}

/* A search for the rows that make claims fail. */
struct probe {
	struct db *db;
	const struct claim_request *request;
	struct refused_seqs *out;
	size_t refused;
	struct err said; /* the error of the last refused row */
};

static int try_rows(const struct probe *probe, const int64_t *seqs, size_t count, struct err *err)
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

static int halve(struct probe *probe, const int64_t *seqs, size_t count, struct err *err)
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

static int try_all(struct probe *probe, const struct rows *rows, struct err *err)
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
static int run_probe(
	struct probe *probe, enum query candidates, const struct params *params, struct err *err)
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

int claims_probe_due(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct refused_seqs *out, struct err *err)
{
	struct probe probe = { .db = db, .request = request, .out = out };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct err own = ERR_INIT;
	bool runs = request->ordering == ORDERING_PARTITION;

	add_partitions(&params, partitions->items, partitions->count);
	params_int(&params, int_of(request->max_rows));
	add_seqs_without(&params, out);
	return run_probe(&probe, runs ? QUERY_PROBE_PARTITIONS : QUERY_PROBE_DUE, &params,
		err == NULL ? &own : err);
}

int claims_probe_lanes(struct db *db, const struct claim_request *request,
	const struct claim_lanes *lanes, struct refused_seqs *out, struct err *err)
{
	struct probe probe = { .db = db, .request = request, .out = out };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct err own = ERR_INIT;

	add_lanes(&params, lanes);
	params_int(&params, int_of(request->max_rows));
	add_seqs_without(&params, out);
	return run_probe(&probe, QUERY_PROBE_LANES, &params, err == NULL ? &own : err);
}
