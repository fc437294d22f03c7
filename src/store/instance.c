#include "store/instance.h"

#include "base/backoff.h"
#include "base/faultpoint.h"
#include "queries.h"

#define REGISTER_TRIES 20
#define RESCUE_WINDOW  20000 /* seqs looked at in one statement */
#define RESCUE_CLAIMS  20    /* claims from the table whose rows are looked at in one */

/* Random, never from a sequence: a replica that is behind would give it out again (rule R2). */
static int32_t draw_id(void)
{
	int32_t id;

	do
		id = (int32_t)(random_u64() >> 33);
	while (id == 0);
	return id;
}

int instance_register(
	struct db *db, const char *name, const char *place, struct instance *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	for (int i = 0; r == 0 && rows_count(rows) == 0 && i < REGISTER_TRIES; i++) {
		out->id = draw_id();
		params_reset(&params);
		params_int(&params, out->id);
		params_text(&params, name);
		params_text(&params, place[0] == '\0' ? NULL : place);
		r = db_run(db, QUERY_REGISTER_INSTANCE, &params, &rows, err);
	}
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return err_set(err, FAULT_DATABASE,
			"%d random instance ids were all taken: look for stale rows in "
			"%s.inbox_instances",
			REGISTER_TRIES, db_schema(db));
	out->first_low_seq = rows_int(rows, 0, 0);
	return 0;
}

int instance_heartbeat(struct db *db, int32_t id, const struct heartbeat *heartbeat,
	int64_t *pg_now_ms, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, id);
	params_bigint(&params, heartbeat->low_seq);
	params_jsonb(
		&params, heartbeat->handlers.data == NULL ? bytes_of("[]") : heartbeat->handlers);
	params_bigint(&params, heartbeat->low_claim);
	r = db_run(db, QUERY_HEARTBEAT, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return HEARTBEAT_FENCED;
	*pg_now_ms = rows_int(rows, 0, 0);
	return 0;
}

int instance_fence(
	struct db *db, int32_t own_id, const struct fencing *fencing, int *fenced, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, own_id);
	params_text(&params, fencing->place[0] == '\0' ? NULL : fencing->place);
	params_bigint(&params, fencing->lease_ms);
	params_bool(&params, fencing->judge_leases);
	FAULT_POINT("before_fence");
	/* First its sessions: an open transaction of a stopped process holds its row (rule R5). */
	r = db_run(db, QUERY_TERMINATE_INSTANCE, &params, NULL, err);
	FAULT_POINT("after_terminate_before_fence");
	if (r == 0)
		r = db_run(db, QUERY_FENCE_INSTANCES, &params, &rows, err);
	if (r == 0)
		*fenced = rows_count(rows);
	return r;
}

/* Both rescue statements answer: rows freed, rows locked, where to go on, and whether that is the end. */
struct rescue {
	struct db *db;
	int32_t id;
	int64_t at;
	int64_t freed;
	int64_t locked;
	bool last;
};

static int rescue_window(struct rescue *rescue, enum query query, int64_t width, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, rescue->id);
	params_bigint(&params, rescue->at);
	params_bigint(&params, width);
	r = db_run(rescue->db, query, &params, &rows, err);
	if (r != 0)
		return r;
	rescue->freed += rows_int(rows, 0, 0);
	rescue->locked += rows_int(rows, 0, 1);
	rescue->at = rows_int(rows, 0, 2);
	rescue->last = rows_bool(rows, 0, 3);
	return 0;
}

static int rescue_born(struct rescue *rescue, struct err *err)
{
	return rescue_window(rescue, QUERY_RESCUE_BORN, RESCUE_WINDOW, err);
}

static int rescue_slow(struct rescue *rescue, struct err *err)
{
	return rescue_window(rescue, QUERY_RESCUE_SLOW, RESCUE_CLAIMS, err);
}

static int walk(struct rescue *rescue, int64_t from, const atomic_bool *stop,
	int (*step)(struct rescue *rescue, struct err *err), struct err *err)
{
	int r = 0;

	rescue->at = from;
	rescue->last = false;
	while (r == 0 && !rescue->last && !atomic_load(stop))
		r = step(rescue, err);
	return r;
}

static int note_rescued(struct db *db, int32_t id, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, id);
	return db_run(db, QUERY_RESCUE_DONE, &params, NULL, err);
}

/* One dead instance. Rows locked by a handler's transaction that outlived it are left for the next
 * time, so it is not noted as rescued before. */
static int rescue_one(struct rescue *rescue, int64_t low_seq, int64_t low_claim,
	const atomic_bool *stop, struct err *err)
{
	int r;

	FAULT_POINT("before_rescue");
	r = walk(rescue, low_claim, stop, rescue_slow, err);
	FAULT_POINT("between_rescues");
	if (r == 0)
		r = walk(rescue, low_seq, stop, rescue_born, err);
	FAULT_POINT("after_rescue");
	if (r != 0 || rescue->locked > 0 || atomic_load(stop))
		return r;
	return note_rescued(rescue->db, rescue->id, err);
}

int instance_rescue(struct db *db, const atomic_bool *stop, int64_t *rescued, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	*rescued = 0;
	r = db_run(db, QUERY_LIST_UNRESCUED, NULL, &rows, err);
	for (int i = 0; r == 0 && i < rows_count(rows) && !atomic_load(stop); i++) {
		struct rescue rescue = { .db = db, .id = (int32_t)rows_int(rows, i, 0) };

		r = rescue_one(&rescue, rows_int(rows, i, 1), rows_int(rows, i, 2), stop, err);
		*rescued += rescue.freed;
	}
	return r;
}

int instance_stop(struct db *db, int32_t id, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, id);
	return db_run(db, QUERY_STOP_INSTANCE, &params, NULL, err);
}
