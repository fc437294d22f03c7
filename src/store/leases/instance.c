/*
 * Implements registration, heartbeat, fencing and absence of instance.h; rescue.c contains the
 * rescue.
 */
#include "store/leases/instance.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/faultpoint.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "queries.h"

#define REGISTER_TRIES  20
#define SESSION_WAIT_US 20000

/* Random and never from a sequence: after a failover to an older copy of the database, a sequence
 * would assign the id of another instance again (rule R2). */
static int32_t draw_id(void)
{
	int32_t id;

	do
		id = (int32_t)(random_u64() >> 33);
	while (id == 0);
	return id;
}

static int take_secret(struct claim_secret *out, struct bytes found, struct err *err)
{
	if (found.length != sizeof(out->bytes))
		return err_set(err, FAULT_DATABASE,
			"inbox_claim_secrets has a secret of %zu bytes, not of %zu: a trigger or a "
			"default of the table was changed",
			found.length, sizeof(out->bytes));
	memcpy(out->bytes, found.data, sizeof(out->bytes));
	return 0;
}

static void param_name(struct params *params, const char *text)
{
	params_text(params, text == NULL || text[0] == '\0' ? NULL : text);
}

int instance_register(
	struct db *db, const struct instance_names *names, struct instance *out, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	for (int i = 0; r == 0 && rows_count(rows) == 0 && i < REGISTER_TRIES; i++) {
		out->id = draw_id();
		out->sent_ms = clock_now_ms();
		params_reset(&params);
		params_int(&params, out->id);
		params_text(&params, names->name);
		param_name(&params, names->host_id);
		param_name(&params, names->group_instance_id);
		r = db_run(db, QUERY_REGISTER_INSTANCE, &params, &rows, err);
	}
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return err_set(err, FAULT_DATABASE,
			"%d random instance ids are all in use: check for stale rows in "
			"%s.inbox_instances",
			REGISTER_TRIES, db_schema(db));
	out->first_low_seq = rows_int(rows, 0, 0);
	return take_secret(&out->claim_secret, rows_bytes(rows, 0, 1), err);
}

int instance_same_member(struct db *db, int32_t id, char *out, size_t size, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r;

	params_int(&params, id);
	r = db_run(db, QUERY_FIND_GROUP_INSTANCE, &params, &rows, err);
	out[0] = '\0';
	if (r == 0 && !rows_is_null(rows, 0, 0))
		(void)snprintf(out, size, "%s", rows_text(rows, 0, 0));
	return r;
}

/* The statement updates only an unfenced row, so an empty result means that this instance is
 * fenced. */
int instance_heartbeat(struct db *db, int32_t id, const struct heartbeat_report *heartbeat,
	struct heartbeat_answer *answer, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int stragglers;
	int r;

	params_int(&params, id);
	params_bigint(&params, heartbeat->bounds.low_seq);
	params_jsonb(
		&params, heartbeat->handlers.data == NULL ? bytes_of("[]") : heartbeat->handlers);
	params_bigint(&params, heartbeat->low_claim);
	params_bigint(&params, heartbeat->bounds.low_rest);
	stragglers = params_array(&params, ARRAY_BIGINT);
	for (size_t i = 0; i < heartbeat->bounds.straggler_count; i++)
		array_bigint(&params, stragglers, heartbeat->bounds.stragglers[i]);
	params_bigint(&params, heartbeat->lease_ms);
	r = db_run(db, QUERY_HEARTBEAT, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return HEARTBEAT_FENCED;
	*answer = (struct heartbeat_answer){ rows_int(rows, 0, 0), rows_bool(rows, 0, 1),
		rows_bool(rows, 0, 2) };
	return 0;
}

int instance_fence(
	struct db *db, int32_t own_id, const struct fencing *fencing, int *fenced, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int64_t sessions;
	int r;

	params_int(&params, own_id);
	param_name(&params, fencing->host_id);
	params_bigint(&params, fencing->lease_ms);
	params_bigint(&params, fencing->steady_ms);
	params_int(&params, fencing->earlier);
	FAULT_POINT("before_fence");
	*fenced = 0;
	for (;;) {
		/* sessions first: an open transaction of a stopped process holds the lock on its
		 * row (rule R5) */
		r = db_run(db, QUERY_TERMINATE_INSTANCE, &params, &rows, err);
		sessions = r == 0 ? rows_int(rows, 0, 0) : 0;
		FAULT_POINT("after_terminate_before_fence");
		if (r == 0)
			r = db_run(db, QUERY_FENCE_INSTANCES, &params, &rows, err);
		if (r != 0)
			return r;
		*fenced += rows_count(rows);
		/* a terminated session keeps its locks for a moment, and its instance was skipped */
		if (sessions == 0 || clock_now_ms() >= fencing->until_ms)
			return 0;
		(void)usleep(SESSION_WAIT_US);
	}
}

/* The messages of one statement are at most so many for each partition, whatever waits there. */
#define LOOKED_AT 500

static int find_needed(struct db *db, int32_t id, const struct absence_limits *limits,
	struct absence *absence, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct bytes found;
	int r;

	params_int(&params, id);
	params_bigint(&params, limits->lease_ms);
	params_bigint(&params, LOOKED_AT);
	r = db_run(db, QUERY_FIND_NEEDED_HANDLERS, &params, &rows, err);
	if (r != 0)
		return r;
	found = rows_bytes(rows, 0, 0);
	buf_reset(&absence->needed);
	buf_add(&absence->needed, found.data, found.length);
	return buf_ok(&absence->needed) ? 0 : err_memory(err);
}

/* The lock serializes this decision between all instances, so that two of them never leave the
 * group for each other (rule R16). */
static int decide_absence(struct db *db, int32_t id, const struct absence_limits *limits,
	struct absence *absence, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	const char *missing;
	int r = db_begin(db, err);

	params_int(&params, id);
	params_bigint(&params, limits->lease_ms);
	params_bigint(&params, limits->absence_ms);
	params_jsonb(&params, absence->needed.length == 0 ? bytes_of("[]")
							  : (struct bytes){ absence->needed.data,
								    absence->needed.length });
	if (r == 0)
		r = db_queue(db, QUERY_LOCK_ABSENCE, NULL, NULL, err);
	if (r == 0)
		r = db_queue(db, QUERY_CHECK_MISSING_HANDLERS, &params, &rows, err);
	if (r == 0)
		r = db_commit(db, err);
	if (r != 0)
		return r == DB_COMMIT_UNKNOWN ? FAULT_DATABASE : r;
	missing = rows_count(rows) == 0 ? NULL : rows_text(rows, 0, 1);
	absence->away = rows_count(rows) > 0 && rows_bool(rows, 0, 0);
	absence->noted = missing != NULL;
	(void)snprintf(
		absence->missing, sizeof(absence->missing), "%s", missing == NULL ? "" : missing);
	return 0;
}

/* While it is away it has no partitions, and so no message that needs a handler. So the handlers because of which it
 * left the group count. */
int instance_absence(struct db *db, int32_t id, const struct absence_limits *limits,
	struct absence *absence, struct err *err)
{
	int r = absence->away ? 0 : find_needed(db, id, limits, absence, err);

	if (r != 0 || (absence->needed.length == 0 && !absence->noted))
		return r;
	absence->noted = true; /* also if the answer to the COMMIT is lost */
	return decide_absence(db, id, limits, absence, err);
}

int instance_stop(struct db *db, int32_t id, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;

	params_int(&params, id);
	return db_run(db, QUERY_STOP_INSTANCE, &params, NULL, err);
}
