/*
 * The part of claims.h that finds the rows that make claims fail. Everything is rolled back.
 */
#include <stdlib.h>

#include "queries.h"
#include "store/claims/claim_params.h"

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

static int32_t most_rows(const struct claim_request *request)
{
	return request->max_rows > INT32_MAX ? INT32_MAX : (int32_t)request->max_rows;
}

int claims_probe_due(struct db *db, const struct claim_request *request,
	const struct claim_partitions *partitions, struct refused_seqs *out, struct err *err)
{
	struct probe probe = { .db = db, .request = request, .out = out };
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	struct err own = ERR_INIT;
	bool runs = request->ordering == ORDERING_PARTITION;

	add_partitions(&params, partitions->items, partitions->count);
	params_int(&params, most_rows(request));
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
	params_int(&params, most_rows(request));
	add_seqs_without(&params, out);
	return run_probe(&probe, QUERY_PROBE_LANES, &params, err == NULL ? &own : err);
}
