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

int retain_run(
	struct db *db, const struct retain_batch *batch, struct retain_done *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	*out = (struct retain_done){ .more = false };
	params_int(&params, batch->instance);
	params_text(&params, names[batch->kind]);
	params_bigint(&params, batch->age_ms);
	params_int(&params, batch->max_rows);
	r = db_run(db, QUERY_RETAIN, &params, &rows, err);
	if (r != 0)
		return r;
	if (!rows_bool(rows, 0, 0))
		return RETAIN_ANOTHERS;
	out->affected = rows_int(rows, 0, 1);
	out->more = rows_bool(rows, 0, 2);
	out->refused = rows_int(rows, 0, 3);
	if (out->refused > 0)
		(void)err_set(&out->refusal, FAULT_DATABASE, "%s: %s",
			rows_is_null(rows, 0, 4) ? "a row" : rows_text(rows, 0, 4),
			rows_text(rows, 0, 5));
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
	r = db_run(db, QUERY_COUNT_REQUESTS, &params, &rows, err);
	if (r != 0)
		return r;
	out->completed = rows_int(rows, 0, 0);
	out->pending = rows_int(rows, 0, 1);
	out->failed = rows_int(rows, 0, 2);
	out->lost = rows_int(rows, 0, 3);
	return 0;
}
