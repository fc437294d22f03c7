/*
 * Implements retain_batch.h. The function inbox.retain() contains the rules.
 */
#include "store/periodic/retain_batch.h"

#include "queries.h"

#define COUNT_MOST   10000
#define PREVIEW_MOST 100000

static const char *const names[RETAIN_KINDS] = {
	[RETAIN_PAYLOAD] = "payload",
	[RETAIN_PROCESSED] = "processed",
	[RETAIN_DEAD] = "dead",
	[RETAIN_DEAD_PRODUCED] = "dead_produced",
	[RETAIN_REJECTS] = "rejects",
	[RETAIN_CONFLICTS] = "conflicts",
	[RETAIN_AUDIT] = "audit",
	[RETAIN_INSTANCES] = "instances",
	[RETAIN_OUTBOX] = "outbox",
	[RETAIN_OUTBOX_DEAD] = "outbox_dead",
	[RETAIN_REQUESTS] = "requests",
	[RETAIN_REQUESTS_LEASED] = "requests_leased",
};

const char *retain_name(enum retain_kind kind)
{
	return names[kind];
}

static void read_done(const struct rows *rows, int row, struct retain_done *out)
{
	*out = (struct retain_done){
		.affected = rows_int(rows, row, 1),
		.more = rows_bool(rows, row, 2),
		.refused = rows_int(rows, row, 3),
	};
	if (out->refused > 0)
		(void)err_set(&out->refusal, FAULT_DATABASE, "%s: %s",
			rows_is_null(rows, row, 4) ? "a row" : rows_text(rows, row, 4),
			rows_text(rows, row, 5));
}

int retain_run(struct db *db, const struct retain_batch *batches, size_t count,
	struct retain_done *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int what;
	int age_ms;
	int max_rows;
	int r;

	params_int(&params, batches[0].instance);
	what = params_array(&params, ARRAY_TEXT);
	age_ms = params_array(&params, ARRAY_BIGINT);
	max_rows = params_array(&params, ARRAY_INT);
	for (size_t i = 0; i < count; i++) {
		array_text(&params, what, names[batches[i].kind]);
		array_bigint(&params, age_ms, batches[i].age_ms);
		array_int(&params, max_rows, batches[i].max_rows);
	}
	r = db_run(db, QUERY_RETAIN, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return RETAIN_ANOTHERS;
	for (size_t i = 0; i < count; i++)
		read_done(rows, (int)i, &out[i]);
	return 0;
}

int retain_preview(struct db *db, enum retain_kind kind, int64_t age_ms, struct retain_preview *out,
	struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_text(&params, names[kind]);
	params_bigint(&params, age_ms);
	params_bigint(&params, PREVIEW_MOST + 1);
	r = db_run(db, QUERY_RETAIN_PREVIEW, &params, &rows, err);
	if (r != 0)
		return r;
	out->more = rows_int(rows, 0, 0) > PREVIEW_MOST;
	out->rows = out->more ? PREVIEW_MOST : rows_int(rows, 0, 0);
	return 0;
}

int retain_count_requests(struct db *db, struct request_counts *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_bigint(&params, COUNT_MOST);
	r = db_read(db, QUERY_COUNT_REQUESTS, &params, &rows, err);
	if (r != 0)
		return r;
	out->completed = rows_int(rows, 0, 0);
	out->pending = rows_int(rows, 0, 1);
	out->failed = rows_int(rows, 0, 2);
	out->lost = rows_int(rows, 0, 3);
	return 0;
}
