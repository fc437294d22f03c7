/*
 * Implements dead_messages.h.
 */
#include "store/periodic/dead_messages.h"

#include "queries.h"
#include "store/pg/halving.h"

#define REFUSALS_MOST 32 /* in one call; each costs some statements that fail */

static void add_position(struct params *params, const struct death *after)
{
	params_bigint(params, after->seq == 0 ? 0 : after->died_us);
	params_bigint(params, after->seq);
}

int dead_count(struct db *db, int64_t cap, const struct death *after, struct dead_waiting *out,
	struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_bigint(&params, cap);
	add_position(&params, after);
	r = db_run(db, QUERY_DEAD_BACKLOG, &params, &rows, err);
	if (r != 0)
		return r;
	out->all = rows_int(rows, 0, 0);
	out->behind = rows_int(rows, 0, 1);
	return 0;
}

int dead_elect(struct db *db, int32_t instance, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, instance);
	r = db_run(db, QUERY_DEAD_ELECT, &params, &rows, err);
	if (r != 0)
		return r;
	return rows_count(rows) == 1 ? 0 : DEAD_ANOTHERS;
}

int dead_resign(struct db *db, int32_t instance, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, instance);
	return db_run(db, QUERY_DEAD_RESIGN, &params, NULL, err);
}

int dead_fetch(
	struct db *db, const struct dead_request *request, struct rows **out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int without;

	params_int(&params, request->max_rows);
	params_bigint(&params, request->max_bytes);
	without = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < request->without_count; i++)
		array_bigint(&params, without, request->without[i].seq);
	add_position(&params, &request->after);
	return db_run(db, QUERY_DEAD_FETCH, &params, out, err);
}

static bool is_among(const struct rows *rows, int64_t seq)
{
	for (int i = 0; i < rows_count(rows); i++) {
		if (rows_int(rows, i, 0) == seq)
			return true;
	}
	return false;
}

/* A list that is marked. `seq` of what is done becomes 0. */
struct marking {
	struct db *db;
	struct death *deaths;
	struct err *refusal;
};

static int mark_part(void *arg, size_t first, size_t count, struct err *err)
{
	const struct marking *marking = arg;
	struct death *deaths = marking->deaths + first;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int seqs = params_array(&params, ARRAY_BIGINT);
	int died = params_array(&params, ARRAY_BIGINT);
	int r;

	for (size_t i = 0; i < count; i++) {
		array_bigint(&params, seqs, deaths[i].seq);
		array_bigint(&params, died, deaths[i].died_us);
	}
	r = db_run(marking->db, QUERY_DEAD_MARK, &params, &rows, err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (is_among(rows, deaths[i].seq))
			deaths[i].seq = 0;
	}
	return r;
}

static int leave_out(void *arg, size_t first, size_t count, struct err *err)
{
	const struct marking *marking = arg;

	for (size_t i = first; i < first + count; i++)
		marking->deaths[i].refused = true;
	if (err == NULL)
		return 0;
	*marking->refusal = *err;
	(void)err_prefix(marking->refusal, "seq %lld", (long long)marking->deaths[first].seq);
	*err = (struct err)ERR_INIT;
	return 0;
}

int dead_mark(
	struct db *db, struct death *deaths, size_t *count, struct err *refusal, struct err *err)
{
	struct marking marking = { db, deaths, refusal };
	struct halving halving = { db, mark_part, leave_out, &marking, REFUSALS_MOST };
	int r = halving_run(&halving, 0, *count, err);
	size_t left = 0;

	for (size_t i = 0; i < *count; i++) {
		if (deaths[i].seq != 0)
			deaths[left++] = deaths[i];
	}
	*count = left;
	return r;
}
